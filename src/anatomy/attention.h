// SPDX-License-Identifier: Apache-2.0
// Chapter `attention` (claim:C6, claim:L1, claim:L4): arithmetic counted exactly, bytes against the form that stores
// its scores, tiles that the sequence does not fill, speed both ways, and what tensor parallelism would send.
#pragma once

#include "anatomy/chapter.h"
#include "anatomy/measure.h"

namespace litespark::anatomy {

struct AttentionSizes {
  int64_t tokens = 4096;  ///< of a batch, about: as many sequences as fit, one at least
  int64_t heads = 8;
  int64_t kv_heads = 8;
  int64_t head_dim = 64;
  /// Also lengths that no tile divides.
  std::vector<int64_t> lengths = {512, 1000, 2048, 4096};
};

/// Counts of one pass over B sequences of T tokens.
struct AttentionCounts {
  double forward_flops = 0;   ///< 4 D for each pair of a query and a key that it sees, all heads
  double backward_flops = 0;  ///< five products where forward has two
  double tensor_bytes = 0;    ///< q, k, v, output and statistics, once each
  double tiled_bytes = 0;     ///< the same with keys and values read once by every tile of 128 queries
  double naive_bytes = 0;     ///< scores and weights of the whole square written and read
  double empty_share = 0;     ///< of the visited tiles' area: rows and columns past the sequence's end
};
AttentionCounts count_attention(const op::AttentionShape& shape, DType compute);

Chapter attention_chapter(Backend& backend, const MeasureOptions& options, const AttentionSizes& sizes);

/// One pair of ops on tensors of their own; the fastest runs, since other work on the machine only slows.
struct AttentionSpeed {
  double forward_seconds = 0;
  double backward_seconds = 0;
};
AttentionSpeed measure_attention(Backend& backend, const MeasureOptions& options, const op::AttentionShape& shape);
/// B sequences of T tokens without a window.
op::AttentionShape attention_shape(const AttentionSizes& sizes, int64_t length);

}  // namespace litespark::anatomy
