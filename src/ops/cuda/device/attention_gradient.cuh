// SPDX-License-Identifier: Apache-2.0
// What both backward attention kernels do with a block of scores: rebuild the probabilities from the saved
// log-sum-exp, and turn dP into dS = P (dP - delta).
#pragma once

#include "ops/cuda/device/attention_launch.cuh"

namespace litespark::cuda {

/// Score columns that a warp holds at a time: half a tile, so that two score blocks and two gradients fit in registers.
inline constexpr int kGradientColumns = 32;
inline constexpr int kGradientBlocks = kGradientColumns / 8;

/// Statistics of one query row: log-sum-exp times log2(e), and delta. Rows past the document never count, because their
/// probability is masked.
struct RowStatistics {
  float log_sum_exp_log2 = 0;
  float delta = 0;
};

/// p = 2^(score * scale_log2 - lse), ds = p (dp - delta).
__device__ inline void probability_and_gradient(float& score, float& gradient, float scale_log2,
                                                const RowStatistics& row, bool visible) {
  const float probability = visible ? exp2_approximate(score * scale_log2 - row.log_sum_exp_log2) : 0.0f;
  score = probability;
  gradient = probability * (gradient - row.delta);
}

}  // namespace litespark::cuda
