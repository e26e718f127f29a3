// SPDX-License-Identifier: Apache-2.0
// Which pairs of a query tile and a key tile touch the causal band, and how many blocks cover a batch of documents.
// Pure functions, shared by host and kernels, proven on the CPU.
#pragma once

#include <cstdint>

namespace litespark::cuda {

/// Rows of a query tile and of a key tile of the portable kernels.
inline constexpr int kAttentionTile = 64;

template <int kTile = kAttentionTile>
constexpr int tiles_of(int rows) {
  return (rows + kTile - 1) / kTile;
}

/// Tiles [begin, end).
struct TileRange {
  int begin = 0;
  int end = 0;
};

/// Positions count from the document's start; window 0 means no limit. Tiles of queries and keys have kTile rows.
template <int kTile>
struct CausalBandOf {
  int length = 0;
  int window = 0;

  constexpr bool sees(int query, int key) const {
    return key <= query && query < length && (window == 0 || query - key < window);
  }

  /// Key tiles that some query of tile `tile` sees.
  constexpr TileRange key_tiles(int tile) const {
    const int first_query = tile * kTile;
    const int last_query = (first_query + kTile < length ? first_query + kTile : length) - 1;
    const int first_key = window > 0 && first_query - window + 1 > 0 ? first_query - window + 1 : 0;
    return {.begin = first_key / kTile, .end = last_query / kTile + 1};
  }

  /// Query tiles that see some key of tile `tile`.
  constexpr TileRange query_tiles(int tile) const {
    const int first_key = tile * kTile;
    const int last_key = (first_key + kTile < length ? first_key + kTile : length) - 1;
    // Written without last_key + window, which overflows for a window near the integer limit.
    const bool cut = window > 0 && window < length - last_key;
    const int last_query = cut ? last_key + window - 1 : length - 1;
    return {.begin = tile, .end = last_query / kTile + 1};
  }

  /// False when every query of the tile sees every key of the other: no element needs a test.
  constexpr bool needs_mask(int query_tile, int key_tile) const {
    const int first_query = query_tile * kTile;
    const int first_key = key_tile * kTile;
    if (first_key + kTile - 1 > first_query) return true;
    if (first_query + kTile > length) return true;
    return window > 0 && first_query + kTile - 1 - first_key >= window;
  }
};
using CausalBand = CausalBandOf<kAttentionTile>;

/// Blocks that surely suffice: each document's last tile may be partial, and so may the rows past the last document.
template <int kTile = kAttentionTile>
constexpr int64_t tile_capacity(int64_t num_tokens, int64_t max_documents) {
  return num_tokens / kTile + max_documents + 1;
}

/// The tile that block `slot` works on. Tiles of all documents come first, then tiles of the rows past the last one
/// (`document` = -1), then nothing (rows() = 0).
template <int kTile>
struct DocumentTileOf {
  int document = -1;
  int tile = 0;    ///< within the document, or within the rows past the last
  int begin = 0;   ///< first row of the document in the batch
  int length = 0;  ///< rows of the document

  constexpr int first() const { return tile * kTile; }
  constexpr int rows() const {
    const int left = length - first();
    return left < 0 ? 0 : left < kTile ? left : kTile;
  }
};
using DocumentTile = DocumentTileOf<kAttentionTile>;

/// For documents of one length: long tiles (the last of each document) first, so that the grid's tail is short.
template <int kTile = kAttentionTile>
constexpr DocumentTileOf<kTile> uniform_tile(int slot, int num_documents, int length) {
  const int document = slot % num_documents;
  return {.document = document,
          .tile = tiles_of<kTile>(length) - 1 - slot / num_documents,
          .begin = document * length,
          .length = length};
}

}  // namespace litespark::cuda
