// SPDX-License-Identifier: Apache-2.0
// Tiles in which a tensor is brought to 8 bits, and the places of a tile's bytes in shared memory. Pure functions.
#pragma once

#include <cstdint>

namespace litespark::cuda {

/// Rows and columns of a tile: a whole 128-byte line of either copy.
inline constexpr int kFp8Tile = 128;
/// Rows and columns that one thread has.
inline constexpr int kFp8Block = 8;
inline constexpr int kFp8BlocksAcross = kFp8Tile / kFp8Block;
inline constexpr int kFp8TileThreads = kFp8BlocksAcross * kFp8BlocksAcross;

constexpr int64_t fp8_tiles(int64_t rows, int64_t columns) {
  return ((rows + kFp8Tile - 1) / kFp8Tile) * ((columns + kFp8Tile - 1) / kFp8Tile);
}
/// Whether rows are whole vectors of eight elements, and columns of the transposed copy whole 16-byte pieces.
constexpr bool fp8_rows_are_whole(int64_t rows, int64_t columns) {
  return columns % kFp8Block == 0 && rows % 16 == 0;
}

/// Of the flat maximum: threads of a block, vectors of a thread.
inline constexpr int kAbsMaxThreads = 256;
inline constexpr int kAbsMaxVectors = 4;

/// Slot (of 8 bytes) of rows 8 * chunk .. 8 * chunk + 7 of a tile's column. Each column has sixteen slots of its own,
/// 128 bytes; their order is changed by the column's block, so that sixteen threads that write the same chunk of
/// columns eight apart meet all banks, and so do those that read a column's slots one after another.
constexpr int fp8_tile_slot(int column, int chunk) {
  return column * kFp8BlocksAcross + (chunk ^ (column / kFp8Block));
}

}  // namespace litespark::cuda
