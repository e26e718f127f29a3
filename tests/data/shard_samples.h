// SPDX-License-Identifier: Apache-2.0
// Small shard folders for tests.
#pragma once

#include <filesystem>
#include <numeric>

#include "data/shard_writer.h"

namespace litespark {

/// `documents` documents of lengths 1, 2, 3, ... whose tokens count upwards over everything, modulo the vocabulary.
inline ShardDescription write_counting_shards(const std::filesystem::path& folder, int documents, int64_t vocab_size,
                                              int64_t max_shard_tokens = 50) {
  std::filesystem::remove_all(folder);
  ShardWriter writer(folder, {.tokenizer_hash = "abc", .vocab_size = vocab_size, .max_shard_tokens = max_shard_tokens});
  int64_t next = 0;
  for (int length = 1; length <= documents; ++length) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = static_cast<int32_t>(next++ % vocab_size);
    writer.add(ids, 3 * length);
  }
  writer.add_source({.name = "counting.txt", .hash = "00", .bytes = 12});
  return writer.finish();
}

}  // namespace litespark
