// SPDX-License-Identifier: Apache-2.0
// The order in which clusters walk over tiles: every tile once, in bands.
#include <gtest/gtest.h>

#include <set>

#include "ops/cuda/heuristics/gated_tiles.h"

namespace litespark::cuda {
namespace {

TEST(GatedTiles, EveryTileComesOnce) {
  for (const int64_t rows : {1, 256, 257, 2048, 2049, 5000, 16384}) {
    for (const int columns : {1, 3, 64}) {
      const GatedGrid grid{.rows = rows, .column_tiles = columns};
      std::set<std::pair<int, int>> seen;
      for (int index = 0; index < grid.num_tiles(); ++index) {
        const GatedTile tile = grid.at(index);
        EXPECT_EQ(tile.first_row % GatedGrid::kClusterRows, 0);
        EXPECT_LT(tile.first_row, rows);
        EXPECT_GE(tile.column, 0);
        EXPECT_LT(tile.column, columns);
        seen.insert({tile.first_row, tile.column});
      }
      EXPECT_EQ(static_cast<int64_t>(seen.size()), (rows + 255) / 256 * columns);
      EXPECT_EQ(static_cast<int>(seen.size()), grid.num_tiles());
    }
  }
}

TEST(GatedTiles, WhatRunsTogetherReadsFewRowsAndColumns) {
  const GatedGrid grid{.rows = 16384, .column_tiles = 64};
  std::set<int> rows, columns;
  for (int index = 0; index < 64; ++index) {
    rows.insert(grid.at(index).first_row);
    columns.insert(grid.at(index).column);
  }
  EXPECT_EQ(rows.size(), 8u);
  EXPECT_EQ(columns.size(), 8u);
}

TEST(GatedTiles, NothingHasNoTiles) {
  EXPECT_EQ((GatedGrid{.rows = 0, .column_tiles = 4}.num_tiles()), 0);
}

}  // namespace
}  // namespace litespark::cuda
