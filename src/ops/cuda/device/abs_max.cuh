// SPDX-License-Identifier: Apache-2.0
// The largest magnitude of what a kernel writes, left in global memory by whichever block sees it: a maximum of
// integers, since non-negative floats are ordered like their bits, Inf above all numbers and NaN above Inf. The same
// bits in any order.
#pragma once

#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"

namespace litespark::cuda {

/// max(largest, |value|); NaN wins.
__device__ inline float larger_magnitude(float largest, float value) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(largest), "f"(fabsf(value)));
  return result;
}

template <int kWidth>
__device__ float larger_magnitude(float largest, const float (&values)[kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) largest = larger_magnitude(largest, values[i]);
  return largest;
}

/// Raises *place to the largest magnitude among `lanes` lanes of a warp, which all must call it with their non-negative
/// `largest`. One lane looks first: once the maximum is near, few warps have anything to say.
__device__ inline void raise_abs_max(float* place, float largest, uint32_t lanes = kFullWarp) {
  const uint32_t bits = __reduce_max_sync(lanes, __float_as_uint(largest) & 0x7fffffffu);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  if (lane != __ffs(static_cast<int>(lanes)) - 1) return;
  auto* const word = reinterpret_cast<uint32_t*>(place);
  if (*reinterpret_cast<volatile uint32_t*>(word) < bits) atomicMax(word, bits);
}

/// The same for values stored as T: rounding keeps the order, so that the largest is rounded once.
template <class T>
__device__ void raise_abs_max_of(float* place, float largest) {
  if (place != nullptr) raise_abs_max(place, rounded<T>(largest));
}

}  // namespace litespark::cuda
