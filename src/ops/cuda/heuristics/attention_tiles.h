// SPDX-License-Identifier: Apache-2.0
// Which pairs of a query tile and a key tile touch the causal band, and how many blocks cover a batch of documents.
// Pure functions, shared by host and kernels, proven on the CPU.
#pragma once

#include <cstdint>

namespace litespark::cuda {

/// Rows of a query tile and of a key tile of the portable kernels.
inline constexpr int kAttentionTile = 64;

constexpr int tiles_of(int rows) {
  return (rows + kAttentionTile - 1) / kAttentionTile;
}

/// Tiles [begin, end).
struct TileRange {
  int begin = 0;
  int end = 0;
};

/// Positions count from the document's start; window 0 means no limit.
struct CausalBand {
  int length = 0;
  int window = 0;

  constexpr bool sees(int query, int key) const {
    return key <= query && query < length && (window == 0 || query - key < window);
  }

  /// Key tiles that some query of tile `tile` sees.
  constexpr TileRange key_tiles(int tile) const {
    const int first_query = tile * kAttentionTile;
    const int last_query = (first_query + kAttentionTile < length ? first_query + kAttentionTile : length) - 1;
    const int first_key = window > 0 && first_query - window + 1 > 0 ? first_query - window + 1 : 0;
    return {.begin = first_key / kAttentionTile, .end = last_query / kAttentionTile + 1};
  }

  /// Query tiles that see some key of tile `tile`.
  constexpr TileRange query_tiles(int tile) const {
    const int first_key = tile * kAttentionTile;
    const int last_key = (first_key + kAttentionTile < length ? first_key + kAttentionTile : length) - 1;
    // Written without last_key + window, which overflows for a window near the integer limit.
    const bool cut = window > 0 && window < length - last_key;
    const int last_query = cut ? last_key + window - 1 : length - 1;
    return {.begin = tile, .end = last_query / kAttentionTile + 1};
  }

  /// False when every query of the tile sees every key of the other: no element needs a test.
  constexpr bool needs_mask(int query_tile, int key_tile) const {
    const int first_query = query_tile * kAttentionTile;
    const int first_key = key_tile * kAttentionTile;
    if (first_key + kAttentionTile - 1 > first_query) return true;
    if (first_query + kAttentionTile > length) return true;
    return window > 0 && first_query + kAttentionTile - 1 - first_key >= window;
  }
};

/// Blocks that surely suffice: each document's last tile may be partial, and so may the rows past the last document.
constexpr int64_t tile_capacity(int64_t num_tokens, int64_t max_documents) {
  return num_tokens / kAttentionTile + max_documents + 1;
}

/// The tile that block `slot` works on. Tiles of all documents come first, then tiles of the rows past the last one
/// (`document` = -1), then nothing (rows() = 0).
struct DocumentTile {
  int document = -1;
  int tile = 0;    ///< within the document, or within the rows past the last
  int begin = 0;   ///< first row of the document in the batch
  int length = 0;  ///< rows of the document

  constexpr int first() const { return tile * kAttentionTile; }
  constexpr int rows() const {
    const int left = length - first();
    return left < 0 ? 0 : left < kAttentionTile ? left : kAttentionTile;
  }
};

/// For documents of one length: long tiles (the last of each document) first, so that the grid's tail is short.
constexpr DocumentTile uniform_tile(int slot, int num_documents, int length) {
  const int document = slot % num_documents;
  return {.document = document,
          .tile = tiles_of(length) - 1 - slot / num_documents,
          .begin = document * length,
          .length = length};
}

}  // namespace litespark::cuda
