// SPDX-License-Identifier: Apache-2.0
// Tokenised data on disk: a sealed folder with pairs of files, tokens and document ends, and a description. Tokens are
// raw little-endian u16 or u32, chosen by the vocabulary; ends are cumulative u64 counts, one a document (the layout of
// datatrove's shards, so that other tools can read them).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace litespark {

struct ShardInfo {
  std::string name;  ///< "shard-00000": NAME.tokens and NAME.ends
  int64_t tokens = 0;
  int64_t documents = 0;
};

struct SourceInfo {
  std::string name;  ///< file name without its folder
  std::string hash;  ///< XXH3-128 of the file
  int64_t bytes = 0;
};

struct ShardDescription {
  std::string tokenizer_hash;
  int64_t vocab_size = 0;
  int token_bytes = 2;     ///< 2 or 4
  int64_t text_bytes = 0;  ///< UTF-8 bytes that the tokens came from: what bits per byte divide by
  std::vector<ShardInfo> shards;
  std::vector<SourceInfo> sources;

  int64_t tokens() const;
  int64_t documents() const;
};

/// Bytes of a token for this vocabulary: 2 up to 65,536 ids, else 4.
int token_bytes_of(int64_t vocab_size);

std::string shard_description_json(const ShardDescription& description);
/// Throws DataError naming the field.
ShardDescription parse_shard_description(const std::string& text, const std::string& where);

}  // namespace litespark
