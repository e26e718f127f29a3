// SPDX-License-Identifier: Apache-2.0
#include "prepare/document_reader.h"

#include <simdjson.h>

#include <algorithm>

#include "core/error.h"

namespace litespark {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace

DocumentReader::DocumentReader(const std::filesystem::path& path, DocumentOptions options)
    : name_(path.string()), options_(std::move(options)), stream_(open_byte_stream(path)) {
  if (options_.format != TextFormat::kAuto) return;
  while (position_ == buffer_.size() && fill()) {
    position_ = std::min(buffer_.find_first_not_of(" \t\r\n"), buffer_.size());
  }
  const bool is_json = position_ < buffer_.size() && buffer_[position_] == '{';
  options_.format = is_json ? TextFormat::kJsonl : TextFormat::kText;
  position_ = 0;
}

/// Appends a chunk, forgetting what was read already.
bool DocumentReader::fill() {
  if (position_ > 0) {
    buffer_.erase(0, position_);
    position_ = 0;
  }
  require_room(buffer_.size());
  const size_t size = buffer_.size();
  buffer_.resize(size + kChunkBytes);
  const size_t count = stream_->read(std::span(buffer_).subspan(size));
  buffer_.resize(size + count);
  return count > 0;
}

void DocumentReader::require_room(size_t bytes) const {
  if (std::cmp_greater(bytes, options_.max_document_bytes)) {
    throw DataError(name_, "a document is too long near line " + std::to_string(line_number_ + 1), bytes,
                    "at most " + std::to_string(options_.max_document_bytes) + " bytes");
  }
}

bool DocumentReader::next_line(std::string& line) {
  size_t searched = 0;
  while (true) {
    const size_t end = buffer_.find('\n', position_ + searched);
    if (end != std::string::npos) {
      line.assign(buffer_, position_, end - position_);
      position_ = end + 1;
      ++line_number_;
      return true;
    }
    searched = buffer_.size() - position_;
    if (!fill()) break;
  }
  if (position_ == buffer_.size()) return false;
  line.assign(buffer_, position_);
  position_ = buffer_.size();
  ++line_number_;
  return true;
}

bool DocumentReader::next_paragraph(std::string& text) {
  std::string line;
  while (next_line(line)) {
    if (is_blank(line)) {
      if (!text.empty()) return true;
      continue;
    }
    if (!text.empty()) text += '\n';
    text += line;
    require_room(text.size());
  }
  return !text.empty();
}

bool DocumentReader::next_text(std::string& text) {
  switch (options_.split) {
    case DocumentSplit::kLine: return next_line(text);
    case DocumentSplit::kParagraph: return next_paragraph(text);
    case DocumentSplit::kFile:
      while (fill()) {
      }
      text.assign(buffer_, position_);
      position_ = buffer_.size();
      return !text.empty();
  }
  return false;
}

std::string DocumentReader::json_text(const std::string& line) const {
  const auto where = [&] { return name_ + " line " + std::to_string(line_number_); };
  thread_local simdjson::dom::parser parser;
  simdjson::dom::element document;
  if (const auto error = parser.parse(line).get(document); error != simdjson::SUCCESS) {
    throw DataError(where(), std::string("is not JSON: ") + simdjson::error_message(error));
  }
  std::string_view text;
  if (const auto error = document[options_.text_key].get_string().get(text); error != simdjson::SUCCESS) {
    throw DataError(where(), "has no text field \"" + options_.text_key + "\"", simdjson::error_message(error),
                    "a string", "set input.text_key");
  }
  int times = 0;
  for (const auto& field : document.get_object()) times += field.key == options_.text_key ? 1 : 0;
  if (times > 1) throw DataError(where(), "has the field \"" + options_.text_key + "\" more than once", times, 1);
  return std::string(text);
}

bool DocumentReader::next(std::string& text) {
  while (true) {
    text.clear();
    if (options_.format == TextFormat::kText) {
      if (!next_text(text)) return false;
    } else {
      std::string line;
      if (!next_line(line)) return false;
      if (is_blank(line)) continue;
      text = json_text(line);
    }
    if (!text.empty()) return true;
  }
}

}  // namespace litespark
