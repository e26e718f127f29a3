// SPDX-License-Identifier: Apache-2.0
// Documents out of files: text split as asked, or the text field of JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "prepare/byte_stream.h"

namespace litespark {

enum class TextFormat : uint8_t { kAuto, kText, kJsonl };  ///< auto: JSON lines when the first byte is "{"
enum class DocumentSplit : uint8_t { kFile, kLine, kParagraph };

struct DocumentOptions {
  TextFormat format = TextFormat::kAuto;
  DocumentSplit split = DocumentSplit::kFile;  ///< of plain text
  std::string text_key = "text";               ///< of JSON lines
  int64_t max_document_bytes = int64_t{1} << 28;
};

class DocumentReader {
 public:
  DocumentReader(const std::filesystem::path& path, DocumentOptions options);

  /// The next document that is not empty; false at the end. Throws DataError with the line for malformed JSON, a
  /// missing text field, or a document beyond the limit.
  bool next(std::string& text);
  int64_t file_bytes_read() const { return stream_->file_bytes_read(); }

 private:
  bool next_line(std::string& line);
  bool next_text(std::string& text);
  bool next_paragraph(std::string& text);
  bool fill();
  void require_room(size_t bytes) const;
  std::string json_text(const std::string& line) const;

  std::string name_;
  DocumentOptions options_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t position_ = 0;
  int64_t line_number_ = 0;
};

}  // namespace litespark
