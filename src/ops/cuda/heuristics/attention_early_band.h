// SPDX-License-Identifier: Apache-2.0
// Key tiles of a document that begin before its first key. Pure functions, shared by host and kernels, proven on the
// CPU.
#pragma once

#include "ops/cuda/heuristics/attention_tiles.h"

namespace litespark::cuda {

/// A document's band with keys counted from `early` rows before its first one on: nobody sees those.
template <int kTile, int kKeyTile>
struct EarlyBandOf {
  CausalBandOf<kTile, kKeyTile> band;  ///< of whole attention
  int early = 0;

  constexpr int first_key(int query) const { return band.first_key(query) + early; }
  constexpr int last_key(int query) const { return band.last_key(query) + early; }

  /// Key tiles that some query of tile `tile` sees. The tile has queries.
  constexpr TileRange key_tiles(int tile) const {
    const int end = tile * kTile + kTile < band.length ? tile * kTile + kTile : band.length;
    return {.begin = first_key(tile * kTile) / kKeyTile, .end = last_key(end - 1) / kKeyTile + 1};
  }

  /// Key tiles whose keys are all seen by those of `rows` queries from `query` on that exist.
  constexpr TileRange unmasked_tiles(int query, int rows) const {
    return {.begin = tiles_of<kKeyTile>(first_key(query + rows - 1)), .end = (query + early + 1) / kKeyTile};
  }
};

}  // namespace litespark::cuda
