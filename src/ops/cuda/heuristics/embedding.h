// SPDX-License-Identifier: Apache-2.0
// How the embedding gradient's one launch is divided among its three kinds of work. Pure functions of the shape.
#pragma once

#include <cstdint>

namespace litespark::cuda {

/// Tokens are grouped by id; a group is a run of positions. A warp owns the runs that begin in kRunTile positions, and
/// sees 32 positions: so it adds runs of up to kShortRun tokens alone.
inline constexpr int kRunTile = 8;
inline constexpr int kShortRun = 32 - kRunTile;
/// A longer run holds exactly one position that is a multiple of kShortRun among its first kShortRun. Such positions
/// are looked at by whole blocks, kLongCandidates a block.
inline constexpr int kLongCandidates = 8;
/// Table rows whose ids a warp looks at, to clear those that no token names.
inline constexpr int kClearedRows = 8;
inline constexpr int kGradientWarps = 8;

struct EmbeddingGradientShape {
  int64_t tokens = 0;
  int64_t vocab = 0;
  int64_t columns = 0;
  int width = 1;            ///< columns a lane
  bool accumulate = false;  ///< rows that no token names stay as they are
};

/// Blocks of the grid in their order: long runs first, since one of them can take as long as everything else.
struct EmbeddingGradientGrid {
  int slices = 0;  ///< of 32 lanes' columns
  int64_t long_blocks = 0;
  int64_t short_blocks = 0;
  int64_t clearing_blocks = 0;

  constexpr int64_t blocks() const { return long_blocks + short_blocks + clearing_blocks; }
};

constexpr EmbeddingGradientGrid embedding_gradient_grid(const EmbeddingGradientShape& shape) {
  const auto parts = [](int64_t whole, int64_t part) { return (whole + part - 1) / part; };
  EmbeddingGradientGrid grid;
  grid.slices = static_cast<int>(parts(shape.columns, 32 * shape.width));
  grid.long_blocks = parts(parts(shape.tokens, kShortRun), kLongCandidates) * grid.slices;
  grid.short_blocks = parts(parts(shape.tokens, kRunTile) * grid.slices, kGradientWarps);
  grid.clearing_blocks = shape.accumulate ? 0 : parts(parts(shape.vocab, kClearedRows), kGradientWarps);
  return grid;
}

}  // namespace litespark::cuda
