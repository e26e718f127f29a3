// SPDX-License-Identifier: Apache-2.0
// A softmax over a row that is read once: a running maximum, and the sum of exponentials relative to it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/step_state.h"
#include "ops/cuda/device/math.cuh"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"

namespace litespark::cuda {

/// A label that is no token: the step ends with an error.
__device__ inline void count_bad_token(StepState* state) {
  atomicAdd(reinterpret_cast<unsigned long long*>(&state->bad_tokens), 1ull);
}

/// A running softmax: the largest logit so far and the sum of exponentials relative to it.
struct OnlineSum {
  // Finite, also times log2(e): a first logit of minus infinity gives exp(-inf) and two empty sums 0, not NaN.
  float max = -1e38f;
  float sum = 0;
};

/// What is subtracted in the exponent. f32: the largest logit. bf16: the same times log2(e), rounded, so that an
/// exponential is one FMA and one special-function operation; the rounding is a factor common to all terms of a row,
/// which cancels in the gradient and is taken out of the loss (shift_remainder).
template <class T>
__device__ float shift_of(float max) {
  return std::is_same_v<T, float> ? max : __fmul_rn(max, kLog2E);
}

template <class T>
__device__ float shifted_exponential(float value, float shift) {
  if constexpr (std::is_same_v<T, float>) {
    return expf(value - shift);
  } else {
    return exp2_approximate(fmaf(value, kLog2E, -shift));
  }
}

/// log of the common factor that shift_of's rounding left in a sum.
template <class T>
__device__ float shift_remainder(float max) {
  constexpr float kLn2 = 0.693147180559945309f;
  return std::is_same_v<T, float> ? 0.0f : fmaf(max, kLog2E, -shift_of<T>(max)) * kLn2;
}

/// Factor that moves a sum from one maximum to a larger one.
template <class T>
__device__ float rescale(float from, float to) {
  if constexpr (std::is_same_v<T, float>) {
    return expf(from - to);
  } else {
    return exp2_approximate(shift_of<T>(from) - shift_of<T>(to));
  }
}

template <class T>
__device__ OnlineSum merge(OnlineSum a, OnlineSum b) {
  const float largest = fmaxf(a.max, b.max);
  return {largest, a.sum * rescale<T>(a.max, largest) + b.sum * rescale<T>(b.max, largest)};
}

/// The calling thread's warp among those of a sum, at most 32.
struct WarpPlace {
  int warp = 0;
  int count = 1;
};
/// The sum over warps, the same bits in every thread; `meet` is a barrier of theirs. `shared` holds one a warp, and may
/// be reused after the next barrier.
template <class T, class Meet>
__device__ OnlineSum merge_warps(OnlineSum value, OnlineSum* shared, WarpPlace place, Meet&& meet) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int stage = 0; stage < 2; ++stage) {
#pragma unroll
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      const OnlineSum other{__shfl_xor_sync(kFullWarp, value.max, distance),
                            __shfl_xor_sync(kFullWarp, value.sum, distance)};
      value = merge<T>(value, other);
    }
    if (stage == 1) break;
    if (lane == 0) shared[place.warp] = value;
    meet();
    value = lane < place.count ? shared[lane] : OnlineSum{};
  }
  return value;
}

/// The same over the block.
template <class T>
__device__ OnlineSum block_merge(OnlineSum value, OnlineSum* shared) {
  return merge_warps<T>(
      value, shared,
      {.warp = static_cast<int>(threadIdx.x) / kWarpSize, .count = static_cast<int>(blockDim.x) / kWarpSize},
      [] { __syncthreads(); });
}

/// `running` with the elements of one vector added; rescaled only where a larger logit turned up, which is rare.
template <class T, int kWidth>
__device__ OnlineSum fold(OnlineSum running, const Pack<T, kWidth>& pack) {
  const float largest = largest_of(pack);
  if (largest > running.max) {
    running.sum *= rescale<T>(running.max, largest);
    running.max = largest;
  }
  const float shift = shift_of<T>(running.max);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) running.sum += shifted_exponential<T>(pack[i], shift);
  return running;
}

/// log(sum of exp) of all that a sum has seen.
template <class T>
__device__ float log_of(const OnlineSum& total) {
  return total.max + (logf(total.sum) - shift_remainder<T>(total.max));
}

/// The gradient of one row's loss with respect to its logits: p (1 + 2 z log_sum_exp), less 1 at the label.
template <class T>
class RowGradient {
 public:
  __device__ RowGradient(const OnlineSum& total, float log_sum_exp, float z_coefficient)
      : scale_((1.0f + 2.0f * z_coefficient * log_sum_exp) / total.sum), shift_(shift_of<T>(total.max)) {}

  /// Of the vector whose first column is `column`.
  template <int kWidth>
  __device__ void of(const Pack<T, kWidth>& pack, int column, int label, float (&values)[kWidth]) const {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = shifted_exponential<T>(pack[i], shift_) * scale_;
    if (column != label / kWidth * kWidth) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] -= i == label % kWidth ? 1.0f : 0.0f;
  }

 private:
  float scale_;
  float shift_;
};

}  // namespace litespark::cuda
