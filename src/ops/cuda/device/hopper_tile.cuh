// SPDX-License-Identifier: Apache-2.0
// What the Hopper attention kernels do with tiles: aligned shared memory, a tile of rows by the copy engine, 16 rows of
// accumulators back to memory, and handing a stage back.
#pragma once

#include "ops/cuda/device/hopper_maps.h"
#include "ops/cuda/device/mma.cuh"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/tma.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/device/wgmma.cuh"

namespace litespark::cuda {

inline constexpr int kWarpgroupThreads = 128;
/// A block: one warpgroup whose single threads move data, two that compute.
inline constexpr int kHopperThreads = 3 * kWarpgroupThreads;
inline constexpr int kConsumerThreads = 2 * kWarpgroupThreads;
inline constexpr int kConsumerWarps = kConsumerThreads / kWarpSize;

/// Arrivals by which a warp hands a stage back: one lane's, behind a __syncwarp. compute-sanitizer's racecheck does not
/// follow that order from lane to lane, so a build for it lets every lane arrive.
#ifdef LITESPARK_RACECHECK
inline constexpr int kWarpArrivals = kWarpSize;
#else
inline constexpr int kWarpArrivals = 1;
#endif
inline constexpr int kConsumerArrivals = kConsumerWarps * kWarpArrivals;

/// Dynamic shared memory for a Shared whose address must be a multiple of 1024: the launch promises less.
template <class Shared>
constexpr int aligned_shared_bytes() {
  return static_cast<int>(sizeof(Shared)) + 1024;
}
template <class Shared>
__device__ Shared& align_shared(unsigned char* raw) {
  const uint32_t address = shared_address(raw);
  return *reinterpret_cast<Shared*>(raw + ((1024 - address % 1024) % 1024));
}

/// Starts the copy of kRows rows of kColumns elements, those of a head, in panels of kRowBytes, whose bytes the caller
/// has announced on `full`.
template <int kRows, int kColumns, int kRowBytes = kPanelRowBytes, class Element>
__device__ void load_rows(Element* tile, const CUtensorMap& map, BoxCoordinate at, uint64_t* full) {
  constexpr int kAcross = kRowBytes / static_cast<int>(sizeof(Element));
  static_assert(kColumns % kAcross == 0 && kRows * kRowBytes % 1024 == 0, "whole panels, each on its alignment");
#pragma unroll
  for (int panel = 0; panel < kColumns / kAcross; ++panel) {
    load_box(shared_address(tile) + static_cast<uint32_t>(panel * kRows * kRowBytes), map,
             {.column = at.column + panel * kAcross, .row = at.row}, shared_address(full));
  }
}

/// The calling warp's arrivals: its accesses come before those of whoever waits for the barrier.
__device__ inline void release(uint64_t* barrier) {
  __syncwarp();
  if (threadIdx.x % kWarpSize < kWarpArrivals) barrier_arrive(shared_address(barrier));
}

/// Writes a warp's 16 rows of accumulators, times `factor` of rows 0..7 and 8..15 of each lane, through its own 16 rows
/// (from `staging` on) of a tile of kTileRows rows in panels of kRowBytes, which nobody reads any more. Rows from
/// `rows` on are left alone.
template <int kTileRows, int kHeadDim, int kRowBytes = kPanelRowBytes>
__device__ void store_accumulators(bf16* destination, int64_t stride, int rows, const float (&sum)[kHeadDim / 2],
                                   const float (&factor)[2], unsigned char* staging) {
  const int lane = unknown_value(static_cast<int>(threadIdx.x) % kWarpSize);
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; i += 2) {
    const uint32_t at = panel_byte<kRowBytes>(kTileRows, accumulator_row(0, lane, i), accumulator_column(lane, i));
    const float scale = factor[i / 2 % 2];
    *reinterpret_cast<uint32_t*>(staging + at) = pack_bf16(sum[i] * scale, sum[i + 1] * scale);
  }
  __syncwarp();
  constexpr int kChunks = kHeadDim / 8;
#pragma unroll
  for (int i = 0; i < 16 * kChunks / kWarpSize; ++i) {
    const int chunk = i * kWarpSize + lane;
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    if (row < rows) {
      *reinterpret_cast<uint4*>(destination + row * stride + column) =
          *reinterpret_cast<const uint4*>(staging + panel_byte<kRowBytes>(kTileRows, row, column));
    }
  }
}

/// The same straight from registers, for a tile that has no place to spare: lanes in pairs exchange what makes their
/// four columns neighbours, so that every 32 bytes of a row are written at once.
template <int kHeadDim>
__device__ void store_accumulators(bf16* destination, int64_t stride, int rows, const float (&sum)[kHeadDim / 2],
                                   const float (&factor)[2]) {
  const int lane = unknown_value(static_cast<int>(threadIdx.x) % kWarpSize);
  const bool is_odd = lane % 2 != 0;
  bf16* const first = destination + accumulator_row(0, lane, 0) * stride + 8 * (lane % 2) + 4 * (lane % 4 / 2);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 2 * half; i < kHeadDim / 2; i += 8) {
      const uint32_t left = pack_bf16(sum[i] * factor[half], sum[i + 1] * factor[half]);
      const uint32_t right = pack_bf16(sum[i + 4] * factor[half], sum[i + 5] * factor[half]);
      const uint32_t other = __shfl_xor_sync(kFullWarp, is_odd ? left : right, 1);
      if (accumulator_row(0, lane, i) >= rows) continue;
      *reinterpret_cast<uint2*>(first + 8 * half * stride + accumulator_column(0, i)) =
          is_odd ? make_uint2(other, right) : make_uint2(left, other);
    }
  }
}

/// The same in f32, times one factor.
template <int kHeadDim>
__device__ void store_accumulators(float* destination, int64_t stride, int rows, const float (&sum)[kHeadDim / 2],
                                   float factor) {
  const int lane = unknown_value(static_cast<int>(threadIdx.x) % kWarpSize);
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; i += 2) {
    const int row = accumulator_row(0, lane, i);
    if (row >= rows) continue;
    *reinterpret_cast<float2*>(destination + row * stride + accumulator_column(lane, i)) =
        make_float2(sum[i] * factor, sum[i + 1] * factor);
  }
}

}  // namespace litespark::cuda
