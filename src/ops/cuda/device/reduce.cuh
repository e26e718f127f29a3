// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over the lanes of a warp and the warps of a block, in an order that depends on shapes alone.
#pragma once

#include <cstdint>

namespace litespark::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr uint32_t kFullWarp = 0xffffffffu;

/// Sum over groups of kLanes neighbouring lanes, the same bits in every lane. All 32 lanes must call it.
template <int kLanes = kWarpSize, class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kFullWarp, value, distance);
  }
  return value;
}

/// Sum over the block, returned to every thread. `shared` holds one element a warp and may be reused after the next
/// barrier of the block. blockDim.x is a multiple of 32 and the block is one-dimensional.
template <class T>
__device__ T block_sum(T value, T* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int num_warps = static_cast<int>(blockDim.x) / kWarpSize;
  value = warp_sum(value);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  return warp_sum(lane < num_warps ? shared[lane] : T{});
}

}  // namespace litespark::cuda
