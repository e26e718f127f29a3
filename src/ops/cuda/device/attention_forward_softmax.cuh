// SPDX-License-Identifier: Apache-2.0
// The softmax of the Hopper attention forward, on scores in the layout of a warpgroup's accumulators: masked, relative
// to a running maximum, and packed as the operand of the next product.
#pragma once

#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/attention_forward_work.cuh"
#include "ops/cuda/device/fp8_codes.cuh"
#include "ops/cuda/device/wgmma.cuh"

namespace litespark::cuda {

inline constexpr float kMasked = -INFINITY;
/// How exponentials lie in the range of what they are rounded to, in powers of two: how large those of a row's known
/// maximum are, and by how much later ones may exceed them. bf16 and f32 end far from here, e4m3 at 448.
template <class Element>
struct ExponentialRange {
  static constexpr float kBits = 0;
  static constexpr float kLazyGrowth = 8;
};
template <>
struct ExponentialRange<e4m3> {
  static constexpr float kBits = op::kFp8ProbabilityBits;
  static constexpr float kLazyGrowth = 2;
};

/// Of a thread's two rows: the raw score that exponentials are relative to, and this thread's part of their sum.
struct Softmax {
  float maximum[2] = {kMasked, kMasked};
  float sum[2] = {0, 0};
};

/// What older sums of a thread's two rows must be multiplied with.
struct Rescale {
  float factor[2] = {1, 1};
  bool is_needed = false;  ///< by some row of the warp
};

/// The largest of row `half`'s scores, of all lanes that share it. A thread has kScores of two rows.
template <int kScores>
__device__ float row_maximum(const float (&scores)[kScores], int half) {
  float largest = fmaxf(scores[2 * half], scores[2 * half + 1]);
  float other = fmaxf(scores[2 * half + 4], scores[2 * half + 5]);
#pragma unroll
  for (int i = 2 * half + 8; i < kScores; i += 8) {
    largest = fmaxf(largest, fmaxf(scores[i], scores[i + 1]));
    other = fmaxf(other, fmaxf(scores[i + 4], scores[i + 5]));
  }
  largest = fmaxf(largest, other);
  largest = fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 1));
  return fmaxf(largest, __shfl_xor_sync(kFullWarp, largest, 2));
}

/// Scores become probabilities relative to the row's maximum so far, or to an earlier one that is not much smaller:
/// every change of it is work for all older sums, and a factor common to a row cancels.
template <class Element, int kScores>
__device__ Rescale softmax_step(Softmax& state, float (&scores)[kScores], float scale_log2) {
  Rescale rescale;
  bool grows = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float largest = row_maximum(scores, half);
    const float growth = (largest - state.maximum[half]) * scale_log2;  // NaN where no key was seen yet
    if (growth > ExponentialRange<Element>::kLazyGrowth) {
      rescale.factor[half] = exp2_approximate(-growth);
      state.maximum[half] = largest;
      state.sum[half] *= rescale.factor[half];
      grows = true;
    }
  }
  rescale.is_needed = __ballot_sync(kFullWarp, grows) != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float shift =
        (state.maximum[half] == kMasked ? 0.0f : state.maximum[half] * scale_log2) - ExponentialRange<Element>::kBits;
    float sum = 0;
    float other = 0;
#pragma unroll
    for (int i = 2 * half; i < kScores; i += 4) {
      scores[i] = exp2_approximate(scores[i] * scale_log2 - shift);
      scores[i + 1] = exp2_approximate(scores[i + 1] * scale_log2 - shift);
      sum += scores[i];
      other += scores[i + 1];
    }
    state.sum[half] += sum + other;
  }
  return rescale;
}

/// Scores of a warp's rows, of which `first_query` is the first, with keys that they do not see. Bounds are relative to
/// a thread's first column, so that an element costs comparisons with constants.
template <class Band, int kScores>
__device__ void mask_scores(float (&scores)[kScores], const Band& band, int first_query, int first_key) {
  const int lane = unknown_value(static_cast<int>(threadIdx.x) % kWarpSize);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first_query + accumulator_row(0, lane, 2 * half);
    const int own_first = first_key + accumulator_column(lane, 0);
    const int first = band.first_key(query) - own_first;
    const int last = band.last_key(query) - own_first;
#pragma unroll
    for (int i = 2 * half; i < kScores; i += 4) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = accumulator_column(0, i + j);
        if (column < first || column > last) scores[i + j] = kMasked;
      }
    }
  }
}

template <int kScores>
__device__ void pack_probabilities(uint32_t (&packed)[kScores / 8][4], const float (&scores)[kScores]) {
#pragma unroll
  for (int i = 0; i < kScores / 2; ++i) packed[i / 4][i % 4] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
}

/// The same in e4m3: a thread's four neighbours of k are its scores of columns 2 t, 2 t + 1, 8 + 2 t and 8 + 2 t + 1 of
/// 16, which is the order of the transposed values' columns (op::fp8_value_column).
template <int kScores>
__device__ void pack_probabilities(uint32_t (&packed)[kScores / 16][4], const float (&scores)[kScores]) {
#pragma unroll
  for (int i = 0; i < kScores / 4; ++i) {
    const int first = i / 4 * 16 + i % 4 / 2 * 8 + i % 2 * 2;
    packed[i / 4][i % 4] = pack_fp8<DType::kE4M3>(scores[first], scores[first + 1]) |
                           pack_fp8<DType::kE4M3>(scores[first + 4], scores[first + 5]) << 16;
  }
}

/// Of a warp's 16 rows, those from `rows` on left out.
template <int kCount>
__device__ float largest_magnitude(const float (&out)[kCount], const float (&factor)[2], int rows) {
  const int row = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int half = i / 2 % 2;
    if (row + 8 * half < rows) largest = larger_magnitude(largest, out[i] * factor[half]);
  }
  return largest;
}

}  // namespace litespark::cuda
