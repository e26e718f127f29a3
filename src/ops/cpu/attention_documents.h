// SPDX-License-Identifier: Apache-2.0
// What forward and backward attention share on the host side: packed documents cut into segments that become tasks,
// the geometry of heads, and rows that belong to no document.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/checked.h"
#include "core/op/attention.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {

/// Positions [begin, end) of one document, whose first row is `row`.
struct DocumentSegment {
  int32_t row = 0, length = 0;  ///< of the document
  int32_t begin = 0, end = 0;
};

/// Room for the segments of any documents that a batch of this shape may hold.
inline int64_t max_segments(const op::AttentionShape& shape, int64_t num_tokens, int64_t segment_length) {
  return num_tokens / segment_length + shape.max_documents;
}

/// Cuts every document into segments, the last ones of a document first: they have the most keys to see.
inline int64_t cut_documents(const int32_t* offsets, int64_t num_documents, int64_t segment_length,
                             DocumentSegment* segments) {
  int64_t count = 0;
  for (int64_t document = 0; document < num_documents; ++document) {
    const int64_t length = offsets[document + 1] - offsets[document];
    for (int64_t piece = ceil_div(length, segment_length) - 1; piece >= 0; --piece) {
      segments[count++] = {.row = offsets[document],
                           .length = static_cast<int32_t>(length),
                           .begin = static_cast<int32_t>(piece * segment_length),
                           .end = static_cast<int32_t>(std::min(length, (piece + 1) * segment_length))};
    }
  }
  return count;
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
