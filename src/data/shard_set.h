// SPDX-License-Identifier: Apache-2.0
// Reads a folder of shards. Every read checks that the bytes are there, so a file that shrinks during a run is an error
// with a name, not a signal.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "data/shard_format.h"
#include "io/file.h"

namespace litespark {

class ShardSet {
 public:
  /// Holds everything but the tokens themselves against the folder's seal and reads the document ends; verify() reads
  /// the tokens too. Throws DataError, IoError.
  static ShardSet open(const std::filesystem::path& folder);

  const ShardDescription& description() const { return description_; }
  int64_t num_tokens() const { return document_ends_.empty() ? 0 : document_ends_.back(); }
  int64_t num_documents() const { return static_cast<int64_t>(document_ends_.size()); }
  /// Tokens of document `index`, counted over all shards: [begin, end).
  int64_t document_begin(int64_t index) const {
    return index == 0 ? 0 : document_ends_[static_cast<size_t>(index - 1)];
  }
  int64_t document_end(int64_t index) const { return document_ends_[static_cast<size_t>(index)]; }

  /// Tokens [first, first + out.size()) counted over all shards. Thread-safe. DataError when an id lies outside the
  /// vocabulary or the file has changed since it was opened.
  void read(int64_t first, std::span<int32_t> out) const;
  /// Holds every byte against the folder's seal.
  void verify() const;
  /// Changes with the tokenizer and with any token.
  std::string fingerprint() const;

 private:
  struct Shard {
    InputFile file;
    int64_t first_token = 0;
    int64_t tokens = 0;
  };

  void read_shard(const Shard& shard, int64_t first, std::span<int32_t> out) const;

  std::filesystem::path folder_;
  ShardDescription description_;
  std::vector<Shard> shards_;
  std::vector<int64_t> document_ends_;
};

}  // namespace litespark
