// SPDX-License-Identifier: Apache-2.0
// Writes tokenised documents as shards. Streams: memory does not grow with the data, whatever the documents' size or
// number.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/shard_format.h"
#include "io/file.h"
#include "io/sealed_folder.h"

namespace litespark {

class ShardWriter {
 public:
  struct Options {
    std::string tokenizer_hash;
    int64_t vocab_size = 0;
    int64_t max_shard_tokens = int64_t{1} << 28;
  };

  /// `folder` must not exist. Throws IoError.
  ShardWriter(const std::filesystem::path& folder, Options options);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// One document of `text_bytes` UTF-8 bytes; empty ones are left out. A document never spans shards. DataError when
  /// an id lies outside the vocabulary.
  void add(std::span<const int32_t> ids, int64_t text_bytes);
  void add_source(SourceInfo source);
  /// Seals the folder and returns what it holds. DataError when there is no token at all.
  ShardDescription finish();

 private:
  void open_shard();
  void close_shard();
  void flush_ends();

  SealedFolderWriter folder_;
  Options options_;
  ShardDescription description_;
  std::unique_ptr<AtomicFile> tokens_;
  std::unique_ptr<AtomicFile> ends_;
  std::vector<uint64_t> pending_ends_;
};

}  // namespace litespark
