// SPDX-License-Identifier: Apache-2.0
// Tiles of the products that SwiGLU is part of, and the order in which clusters walk over them. Pure functions, shared
// by host and kernels, proven on the CPU.
#pragma once

#include <cstdint>

namespace litespark::cuda {

/// Of a block's tile: tokens, columns of the product, and the depth that one stage of the ring holds.
inline constexpr int kGatedRows = 128;
inline constexpr int kGatedColumns = 256;
inline constexpr int kGatedDepth = 64;
/// Blocks of a cluster: tiles below each other, which share what they read of the weights.
inline constexpr int kGatedCluster = 2;

/// Where a cluster's tile starts: the rows of its first block, and the column in units of tiles.
struct GatedTile {
  int first_row = 0;
  int column = 0;
};

/// Walks down bands of kBand clusters' rows and along the columns, so that what runs at the same time reads few
/// distinct rows and columns: with 66 clusters under way, 8 x 8 tiles are 2,048 tokens and 8 column tiles.
struct GatedGrid {
  int64_t rows = 0;      ///< tokens
  int column_tiles = 0;  ///< of the product

  static constexpr int kBand = 8;
  static constexpr int kClusterRows = kGatedRows * kGatedCluster;

  constexpr int row_clusters() const { return static_cast<int>((rows + kClusterRows - 1) / kClusterRows); }
  /// Of clusters.
  constexpr int num_tiles() const { return row_clusters() * column_tiles; }

  constexpr GatedTile at(int index) const {
    const int band = index / (kBand * column_tiles);
    const int within = index % (kBand * column_tiles);
    const int left = row_clusters() - band * kBand;
    const int height = left < kBand ? left : kBand;
    return {.first_row = (band * kBand + within % height) * kClusterRows, .column = within / height};
  }
};

}  // namespace litespark::cuda
