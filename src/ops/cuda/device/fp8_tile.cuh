// SPDX-License-Identifier: Apache-2.0
// A thread's place in a tile of a tensor that is brought to 8 bits, and its elements.
#pragma once

#include <cstdint>

#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/heuristics/fp8_tiles.h"

namespace litespark::cuda {

/// Where a thread stands in a tile of kFp8Tile rows and columns: it owns kFp8Block x kFp8Block elements.
struct Place {
  int64_t row, column;  // first of its elements
  int64_t tile_row, tile_column;
  int across, down;  // its block within the tile

  __device__ explicit Place(int64_t columns) {
    const int64_t tiles_across = (columns + kFp8Tile - 1) / kFp8Tile;
    tile_row = blockIdx.x / tiles_across * kFp8Tile;
    tile_column = blockIdx.x % tiles_across * kFp8Tile;
    across = static_cast<int>(threadIdx.x) % kFp8BlocksAcross;
    down = static_cast<int>(threadIdx.x) / kFp8BlocksAcross;
    row = tile_row + down * kFp8Block;
    column = tile_column + across * kFp8Block;
  }
};

/// A thread's elements; 0 outside the tensor. All loads are under way before the first is used.
template <class T, bool kWide>
__device__ void load_block(const T* x, int64_t rows, int64_t columns, const Place& place,
                           Pack<T, kVectorWidth> (&held)[kFp8Block]) {
#pragma unroll
  for (int r = 0; r < kFp8Block; ++r) {
    held[r] = {};
    if (place.row + r >= rows) continue;
    const T* const source = x + (place.row + r) * columns + place.column;
    if constexpr (kWide) {
      if (place.column < columns) held[r] = load_pack<kVectorWidth>(source);
    } else {
#pragma unroll
      for (int c = 0; c < kFp8Block; ++c) {
        if (place.column + c < columns) held[r].elements[c] = source[c];
      }
    }
  }
}

}  // namespace litespark::cuda
