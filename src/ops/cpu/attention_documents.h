// SPDX-License-Identifier: Apache-2.0
// What forward and backward attention share on the host side: packed documents cut into segments that become tasks,
// the geometry of heads, and rows that belong to no document.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/checked.h"
#include "core/op/attention.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {

/// Queries and keys of one document that meet: consecutive rows of each.
struct DocumentPair {
  int32_t query_row = 0, num_queries = 0;
  int32_t key_row = 0, num_keys = 0;
  /// Position of the first query, counted from the first key: 0 where both begin together, else all keys are earlier.
  int32_t query_offset = 0;

  bool begin_together() const { return query_offset == 0; }
};

/// Queries or keys [begin, end) of a pair, as whoever cuts it says.
struct DocumentSegment {
  DocumentPair pair;
  int32_t begin = 0, end = 0;
};

/// Room for the segments of any documents that a batch of this shape may hold.
inline int64_t max_segments(const op::AttentionShape& shape, int64_t num_tokens, int64_t segment_length) {
  return num_tokens / segment_length + shape.max_documents;
}

/// Cuts `length` queries or keys of a pair, the last ones first: of one document, they have the most keys to see.
/// Returns how many segments there are.
inline int64_t cut_pair(const DocumentPair& pair, int64_t length, int64_t segment_length, DocumentSegment* segments) {
  int64_t count = 0;
  for (int64_t piece = ceil_div(length, segment_length) - 1; piece >= 0; --piece) {
    segments[count++] = {.pair = pair,
                         .begin = static_cast<int32_t>(piece * segment_length),
                         .end = static_cast<int32_t>(std::min(length, (piece + 1) * segment_length))};
  }
  return count;
}

/// Cuts every document into segments.
inline int64_t cut_documents(const int32_t* offsets, int64_t num_documents, int64_t segment_length,
                             DocumentSegment* segments) {
  int64_t count = 0;
  for (int64_t document = 0; document < num_documents; ++document) {
    const int32_t length = offsets[document + 1] - offsets[document];
    const DocumentPair pair{
        .query_row = offsets[document], .num_queries = length, .key_row = offsets[document], .num_keys = length};
    count += cut_pair(pair, length, segment_length, segments + count);
  }
  return count;
}

/// A chunk of queries and one of keys, of `length` consecutive rows each: where they begin in the micro-batch and in
/// their tensors.
struct ChunkPair {
  int64_t length = 0;
  int64_t first_query = 0, first_key = 0;
  int64_t query_row = 0, key_row = 0;
};

/// Calls body(pair) for each document of which queries in one chunk see keys in the other.
template <class Body>
void for_each_shared_document(const ChunkPair& chunks, const int32_t* offsets, int64_t num_documents, int window,
                              const Body& body) {
  for (int64_t document = 0; document < num_documents; ++document) {
    const auto rows = [&](int64_t first) {
      return std::pair(std::max<int64_t>(offsets[document], first),
                       std::min<int64_t>(offsets[document + 1], first + chunks.length));
    };
    const auto [query, query_end] = rows(chunks.first_query);
    const auto [key, key_end] = rows(chunks.first_key);
    if (query >= query_end || key >= key_end) continue;
    if (window > 0 && query - (key_end - 1) >= window) continue;
    body(DocumentPair{.query_row = static_cast<int32_t>(query - chunks.first_query + chunks.query_row),
                      .num_queries = static_cast<int32_t>(query_end - query),
                      .key_row = static_cast<int32_t>(key - chunks.first_key + chunks.key_row),
                      .num_keys = static_cast<int32_t>(key_end - key),
                      .query_offset = static_cast<int32_t>(query - key)});
  }
}

/// Calls body(chunks) for every two chunks of which the queries' is not before the keys'; `rows` a rank.
template <class Body>
void for_each_chunk_pair(const op::ContextPart& part, int64_t rows, const Body& body) {
  const int64_t length = rows / 2;
  for (int query_half = 0; query_half < 2; ++query_half) {
    for (int key_half = 0; key_half < 2; ++key_half) {
      const int64_t query = op::context_chunk(part.ranks, part.query_rank, query_half);
      const int64_t key = op::context_chunk(part.ranks, part.key_rank, key_half);
      if (key > query) continue;
      body(ChunkPair{.length = length,
                     .first_query = query * length,
                     .first_key = key * length,
                     .query_row = query_half * length,
                     .key_row = key_half * length});
    }
  }
}

/// ALiBi's slopes by head, filled by fill_slopes once the memory is there; null without ALiBi.
inline float* take_slopes(ScratchCursor& cursor, const op::AttentionShape& shape) {
  return shape.has_alibi ? cursor.take<float>(shape.num_heads) : nullptr;
}
inline void fill_slopes(const op::AttentionShape& shape, float* slopes) {
  for (int head = 0; shape.has_alibi && head < shape.num_heads; ++head) {
    slopes[head] = op::alibi_slope(head, shape.num_heads);
  }
}

/// Heads that are on, counted from the first of their group, one group behind the other, and how many each has.
struct OnHeads {
  uint16_t* heads = nullptr;  ///< [num_heads]
  int32_t* counts = nullptr;  ///< [num_kv_heads]
};
inline OnHeads take_on_heads(ScratchCursor& cursor, const op::AttentionShape& shape) {
  return {.heads = cursor.take<uint16_t>(shape.num_heads), .counts = cursor.take<int32_t>(shape.num_kv_heads)};
}
inline void fill_on_heads(const op::AttentionShape& shape, const OnHeads& on) {
  const int group = shape.num_heads / shape.num_kv_heads;
  for (int kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
    on.counts[kv_head] = 0;
    for (int i = 0; i < group; ++i) {
      const int head = kv_head * group + i;
      if (shape.gates.is_on(head)) on.heads[kv_head * group + on.counts[kv_head]++] = static_cast<uint16_t>(i);
    }
  }
}

/// Zeros in the columns of query heads that are off, of all rows; head 0 begins at `data`.
template <class Value>
void zero_off_heads(int threads, const op::AttentionShape& shape, Value* data, int64_t num_rows, int64_t stride) {
  if (!shape.gates.any_off()) return;
  constexpr int64_t kRowsPerBlock = 64;
  parallel_ranges(threads, num_rows, kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int head = 0; head < shape.num_heads; ++head) {
        if (!shape.gates.is_on(head)) std::fill_n(data + row * stride + head * shape.head_dim, shape.head_dim, Value{});
      }
    }
  });
}

inline AttentionHead attention_head(const op::AttentionShape& shape) {
  return {.dim = shape.head_dim,
          .padded_dim = static_cast<int>(round_up(shape.head_dim, kAttentionDimStep)),
          .window = shape.window,
          .scale = shape.scale};
}

template <class Value>
void zero_rows(int threads, Value* data, int64_t first_row, int64_t num_rows, int64_t columns) {
  constexpr int64_t kRowsPerBlock = 64;
  parallel_ranges(threads, num_rows - first_row, kRowsPerBlock, [&](int64_t begin, int64_t end) {
    std::fill(data + (first_row + begin) * columns, data + (first_row + end) * columns, Value{});
  });
}

}  // namespace litespark::cpu
