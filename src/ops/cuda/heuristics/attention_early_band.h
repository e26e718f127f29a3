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

  /// Key tiles that some of the kTile queries from `query` on sees; one of them exists.
  constexpr TileRange key_tiles_of(int query) const {
    const int end = query + kTile < band.length ? query + kTile : band.length;
    return {.begin = first_key(query > 0 ? query : 0) / kKeyTile, .end = last_key(end - 1) / kKeyTile + 1};
  }

  /// Key tiles whose keys are all seen by those of `rows` queries from `query` on that exist.
  constexpr TileRange unmasked_tiles(int query, int rows) const {
    return {.begin = tiles_of<kKeyTile>(first_key(query + rows - 1)), .end = (query + early + 1) / kKeyTile};
  }
};

}  // namespace litespark::cuda
