// SPDX-License-Identifier: Apache-2.0
// The moves that the portable attention kernels are made of: a tile of rows to shared memory, the product of a warp's
// 16 rows with a tile, the product of probabilities held in registers with a tile, 16 rows of accumulators to memory.
#pragma once

#include "ops/cuda/device/attention_parts.cuh"
#include "ops/cuda/device/fragment_maps.h"
#include "ops/cuda/device/mma.cuh"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/heuristics/attention_tiles.h"

namespace litespark::cuda {

/// Warps of a block; each owns 16 rows of the block's tile.
inline constexpr int kAttentionWarps = kAttentionTile / 16;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarpSize;

/// Elements of one tile in shared memory.
template <int kHeadDim>
constexpr int tile_elements() {
  return kAttentionTile * padded_pitch(kHeadDim);
}

/// Starts copying `rows` rows of kHeadDim elements, `row_stride` elements apart; the tile's other rows become zeros.
/// The caller commits and waits.
template <int kHeadDim>
__device__ void load_tile(bf16* tile, const bf16* source, int64_t row_stride, int rows) {
  constexpr int kChunksPerRow = kHeadDim / 8;
  const uint32_t base = shared_address(tile);
#pragma unroll 4
  for (int i = 0; i < kAttentionTile * kChunksPerRow / kAttentionThreads; ++i) {
    const int chunk = i * kAttentionThreads + static_cast<int>(threadIdx.x);
    const int row = chunk / kChunksPerRow;
    const int column = chunk % kChunksPerRow * 8;
    const bool exists = row < rows;
    const auto destination = static_cast<uint32_t>((row * padded_pitch(kHeadDim) + column) * 2);
    copy_async_16(base + destination, source + (exists ? row : 0) * row_stride + column, exists);
  }
}

/// Waits for copies that nobody waited for: of a block whose rows meet no others.
__device__ inline void finish_copies() {
  copy_async_commit();
  copy_async_wait<0>();
}

/// The A operand of columns 16 `step` .. + 15 of a warp's 16 rows.
template <int kHeadDim>
__device__ void load_a(uint32_t (&a)[4], const bf16* rows, int step) {
  const TileCoordinate at = ldmatrix_a(static_cast<int>(threadIdx.x) % kWarpSize);
  load_matrix(a, shared_address(rows + at.row * padded_pitch(kHeadDim) + 16 * step + at.column));
}

/// scores [16 x 8 kBlocks] += a b^T over columns 16 `step` .. + 15, b being 8 kBlocks rows of a tile.
template <int kHeadDim, int kBlocks>
__device__ void multiply_step(float (&scores)[kBlocks][4], const uint32_t (&a)[4], const bf16* b, int step) {
  const TileCoordinate at = ldmatrix_b(static_cast<int>(threadIdx.x) % kWarpSize);
  const uint32_t base = shared_address(b + at.row * padded_pitch(kHeadDim) + 16 * step + at.column);
#pragma unroll
  for (int pair = 0; pair < kBlocks / 2; ++pair) {
    uint32_t fragment[4];
    load_matrix(fragment, base + static_cast<uint32_t>(pair * 16 * padded_pitch(kHeadDim) * 2));
    mma_bf16(scores[2 * pair], a, fragment[0], fragment[1]);
    mma_bf16(scores[2 * pair + 1], a, fragment[2], fragment[3]);
  }
}

/// scores = a b^T with both in shared memory: 16 rows at `a`, 8 kBlocks rows at `b`.
template <int kHeadDim, int kBlocks>
__device__ void multiply_rows(float (&scores)[kBlocks][4], const bf16* a, const bf16* b) {
#pragma unroll
  for (auto& block : scores) {
#pragma unroll
    for (float& value : block) value = 0;
  }
  // Wide heads leave few registers for addresses: a short unrolling keeps them from spilling.
#pragma unroll(kHeadDim > 128 ? 2 : kHeadDim / 16)
  for (int step = 0; step < kHeadDim / 16; ++step) {
    uint32_t fragment[4];
    load_a<kHeadDim>(fragment, a, step);
    multiply_step<kHeadDim>(scores, fragment, b, step);
  }
}

/// Accumulators of two neighbouring 16 x 8 blocks rounded to the A operand of the next product: no lane needs
/// another's.
__device__ inline void pack_a(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4]) {
  a[0] = pack_bf16(left[0], left[1]);
  a[1] = pack_bf16(left[2], left[3]);
  a[2] = pack_bf16(right[0], right[1]);
  a[3] = pack_bf16(right[2], right[3]);
}

/// sum [16 x kHeadDim] += p b: p is 16 x 8 kBlocks in accumulator layout, b 8 kBlocks rows of a tile.
template <int kHeadDim, int kBlocks>
__device__ void accumulate_rows(float (&sum)[kHeadDim / 8][4], const float (&p)[kBlocks][4], const bf16* b) {
  const TileCoordinate at = ldmatrix_b_transposed(static_cast<int>(threadIdx.x) % kWarpSize);
  const uint32_t base = shared_address(b + at.row * padded_pitch(kHeadDim) + at.column);
#pragma unroll
  for (int step = 0; step < kBlocks / 2; ++step) {
    uint32_t a[4];
    pack_a(a, p[2 * step], p[2 * step + 1]);
#pragma unroll
    for (int pair = 0; pair < kHeadDim / 16; ++pair) {
      uint32_t fragment[4];
      load_matrix_transposed(fragment,
                             base + static_cast<uint32_t>((step * 16 * padded_pitch(kHeadDim) + pair * 16) * 2));
      mma_bf16(sum[2 * pair], a, fragment[0], fragment[1]);
      mma_bf16(sum[2 * pair + 1], a, fragment[2], fragment[3]);
    }
  }
}

/// Writes a warp's 16 rows, scaled by one factor for rows 0..7 and one for rows 8..15 of each lane, through its own 16
/// rows of shared memory as 16-byte stores. Rows from `rows` on are left alone.
template <int kHeadDim>
__device__ void store_rows(bf16* destination, int64_t row_stride, int rows, const float (&sum)[kHeadDim / 8][4],
                           const float (&factor)[2], bf16* staging) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  __syncwarp();
#pragma unroll
  for (int block = 0; block < kHeadDim / 8; ++block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const TileCoordinate at = mma_c(lane, 2 * half);
      const uint32_t packed = pack_bf16(sum[block][2 * half] * factor[half], sum[block][2 * half + 1] * factor[half]);
      *reinterpret_cast<uint32_t*>(staging + at.row * padded_pitch(kHeadDim) + 8 * block + at.column) = packed;
    }
  }
  __syncwarp();
  constexpr int kChunksPerRow = kHeadDim / 8;
#pragma unroll
  for (int i = 0; i < 16 * kChunksPerRow / kWarpSize; ++i) {
    const int chunk = i * kWarpSize + lane;
    const int row = chunk / kChunksPerRow;
    const int column = chunk % kChunksPerRow * 8;
    if (row < rows) {
      *reinterpret_cast<uint4*>(destination + row * row_stride + column) =
          *reinterpret_cast<const uint4*>(staging + row * padded_pitch(kHeadDim) + column);
    }
  }
}

/// A warp's 16 rows in f32. Rows from `rows` on, and those that `factors` leaves out, are left alone.
template <int kHeadDim>
__device__ void store_rows(float* destination, int64_t row_stride, int rows, const float (&sum)[kHeadDim / 8][4],
                           const RowFactors& factors) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const TileCoordinate at = mma_c(lane, 2 * half);
    if (at.row >= rows || !factors.writes[half]) continue;
    float* const row = destination + at.row * row_stride + at.column;
#pragma unroll
    for (int block = 0; block < kHeadDim / 8; ++block) {
      store_pair(row + 8 * block, sum[block][2 * half], sum[block][2 * half + 1], factors, half);
    }
  }
}

/// Zeros in `rows` rows of kHeadDim elements, by the whole block.
template <int kHeadDim, class T>
__device__ void clear_rows(T* destination, int64_t row_stride, int rows) {
  constexpr int kElements = 16 / sizeof(T);
  constexpr int kChunksPerRow = kHeadDim / kElements;
  for (int chunk = static_cast<int>(threadIdx.x); chunk < rows * kChunksPerRow; chunk += kAttentionThreads) {
    T* const at = destination + chunk / kChunksPerRow * row_stride + chunk % kChunksPerRow * kElements;
    *reinterpret_cast<uint4*>(at) = make_uint4(0, 0, 0, 0);
  }
}

}  // namespace litespark::cuda
