// SPDX-License-Identifier: Apache-2.0
#include "data/shard_writer.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"

namespace litespark {
namespace {

constexpr size_t kEndsPerWrite = 8192;

template <class Token>
void write_tokens(AtomicFile& file, std::span<const int32_t> ids) {
  std::vector<Token> narrow(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) narrow[i] = static_cast<Token>(ids[i]);
  file.write(std::as_bytes(std::span(narrow)));
}

}  // namespace

ShardWriter::ShardWriter(const std::filesystem::path& folder, Options options)
    : folder_(folder, hash_bytes(std::as_bytes(std::span(options.tokenizer_hash)))), options_(std::move(options)) {
  description_.tokenizer_hash = options_.tokenizer_hash;
  description_.vocab_size = options_.vocab_size;
  description_.token_bytes = token_bytes_of(options_.vocab_size);
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::open_shard() {
  const std::string name = fmt::format("shard-{:05}", description_.shards.size());
  description_.shards.push_back({.name = name});
  tokens_ = std::make_unique<AtomicFile>(folder_.path() / (name + ".tokens"));
  ends_ = std::make_unique<AtomicFile>(folder_.path() / (name + ".ends"));
}

void ShardWriter::flush_ends() {
  ends_->write(std::as_bytes(std::span(pending_ends_)));
  pending_ends_.clear();
}

void ShardWriter::close_shard() {
  if (!tokens_) return;
  flush_ends();
  tokens_->commit();
  ends_->commit();
  tokens_.reset();
  ends_.reset();
}

void ShardWriter::add(std::span<const int32_t> ids, int64_t text_bytes) {
  if (ids.empty()) return;
  for (const int32_t id : ids) {
    if (id < 0 || id >= options_.vocab_size) {
      throw DataError("prepare", "token id outside the vocabulary", id,
                      "0 to " + std::to_string(options_.vocab_size - 1));
    }
  }
  const auto count = static_cast<int64_t>(ids.size());
  if (tokens_ && description_.shards.back().tokens + count > options_.max_shard_tokens) close_shard();
  if (!tokens_) open_shard();
  if (description_.token_bytes == 2) {
    write_tokens<uint16_t>(*tokens_, ids);
  } else {
    write_tokens<uint32_t>(*tokens_, ids);
  }
  ShardInfo& shard = description_.shards.back();
  shard.tokens += count;
  ++shard.documents;
  description_.text_bytes += text_bytes;
  pending_ends_.push_back(static_cast<uint64_t>(shard.tokens));
  if (pending_ends_.size() >= kEndsPerWrite) flush_ends();
}

void ShardWriter::add_source(SourceInfo source) {
  description_.sources.push_back(std::move(source));
}

ShardDescription ShardWriter::finish() {
  close_shard();
  if (description_.tokens() == 0) throw DataError("prepare", "the sources hold no text", 0, "at least one document");
  write_text_file(folder_.path() / "shards.json", shard_description_json(description_));
  folder_.seal();
  return description_;
}

}  // namespace litespark
