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

/// Queries and keys of one document that meet. Positions count from the first key; `offset` is that of the first query:
/// 0 where both begin together, as in whole attention, else all keys are earlier. Window 0 means no limit. Tiles of
/// queries and of keys have kTile and kKeyTile rows, each counted from the first.
template <int kTile, int kKeyTile = kTile>
struct CausalBandOf {
  int length = 0;  ///< queries
  int window = 0;
  int num_keys = length;
  int offset = 0;

  /// Keys first_key .. last_key are what a query sees; none where the last is less than the first.
  constexpr int first_key(int query) const {
    const int position = offset + query;
    return window > 0 && position >= window ? position - window + 1 : 0;
  }
  constexpr int last_key(int query) const {
    if (query >= length) return -1;
    return offset + query < num_keys ? offset + query : num_keys - 1;
  }
  constexpr bool sees(int query, int key) const { return key >= first_key(query) && key <= last_key(query); }

  /// Queries first_query .. last_query are those that see a key.
  constexpr int first_query(int key) const { return key > offset ? key - offset : 0; }
  constexpr int last_query(int key) const {
    // Written without key + window, which overflows for a window near the integer limit.
    const bool cut = window > 0 && window < offset + length - key;
    return (cut ? key + window - offset : length) - 1;
  }

  /// Key tiles that some query of tile `tile` sees; maybe none.
  constexpr TileRange key_tiles(int tile) const { return key_tiles_of(tile * kTile); }
  /// The same for the kTile queries from `query` on; those below 0 do not exist.
  constexpr TileRange key_tiles_of(int query) const {
    const int end = query + kTile < length ? query + kTile : length;
    return tiles_through<kKeyTile>(first_key(query > 0 ? query : 0), last_key(end - 1));
  }

  /// Query tiles that see some key of tile `tile`; maybe none.
  constexpr TileRange query_tiles(int tile) const {
    const int end = tile * kKeyTile + kKeyTile < num_keys ? tile * kKeyTile + kKeyTile : num_keys;
    return tiles_through<kTile>(first_query(tile * kKeyTile), last_query(end - 1));
  }

  /// False when every query of the tile sees every key of the other: no element needs a test.
  constexpr bool needs_mask(int query_tile, int key_tile) const {
    return rows_need_mask(query_tile * kTile, kTile, key_tile);
  }
  /// The same for `rows` queries from `query` on.
  constexpr bool rows_need_mask(int query, int rows, int key_tile) const {
    const int key = key_tile * kKeyTile;
    if (key + kKeyTile - 1 > offset + query || key + kKeyTile > num_keys || query + rows > length) return true;
    return window > 0 && offset + query + rows - 1 - key >= window;
  }

 private:
  template <int kRows>
  static constexpr TileRange tiles_through(int first, int last) {
    if (first > last) return {};
    return {.begin = first / kRows, .end = last / kRows + 1};
  }
};
using CausalBand = CausalBandOf<kAttentionTile>;

/// Rows [first, first + length) of the micro-batch, which stand in a tensor from row `row` on.
struct RowChunk {
  int first = 0;
  int length = 0;
  int row = 0;
};

/// The rows of a document that a chunk holds: `begin` in the tensor, `first` in the micro-batch. `length` 0: none.
struct ChunkRows {
  int first = 0;
  int length = 0;
  int begin = 0;
};
constexpr ChunkRows rows_in_chunk(const RowChunk& chunk, int document_begin, int document_end) {
  const int chunk_end = chunk.first + chunk.length;
  const int first = document_begin > chunk.first ? document_begin : chunk.first;
  const int end = document_end < chunk_end ? document_end : chunk_end;
  return {.first = first, .length = end > first ? end - first : 0, .begin = chunk.row + (first - chunk.first)};
}

/// The rows of a context rank's tensors: its chunks, which follow each other there as they do in the micro-batch.
struct RankRows {
  RowChunk early, late;

  constexpr int row_of_batch(int row) const {
    return row < late.row ? early.first + row : late.first + (row - late.row);
  }
  /// How many of them come before row `end` of the micro-batch.
  constexpr int before(int end) const { return rows_before(early, end) + rows_before(late, end); }

 private:
  static constexpr int rows_before(const RowChunk& chunk, int end) {
    const int rows = end - chunk.first;
    return rows < 0 ? 0 : rows < chunk.length ? rows : chunk.length;
  }
};

/// What a document's rows in one chunk of queries see of its rows in a chunk of keys that is not a later one.
template <int kTile, int kKeyTile = kTile>
constexpr CausalBandOf<kTile, kKeyTile> band_of(const ChunkRows& queries, const ChunkRows& keys, int window) {
  return {.length = queries.length, .window = window, .num_keys = keys.length, .offset = queries.first - keys.first};
}

/// Blocks that surely suffice: each document's last tile may be partial, and so may the rows past the last document.
template <int kTile = kAttentionTile>
constexpr int64_t tile_capacity(int64_t num_tokens, int64_t max_documents) {
  return num_tokens / kTile + max_documents + 1;
}

/// Rows by which the first tile of a document begins before it, in tiles of more than two warpgroups: whole warpgroups
/// (64 rows) that are empty there, where they would see one tile of keys, and not at the end, where they would see all.
template <int kTile>
constexpr int tile_lead(int length) {
  constexpr int kRows = 64;
  if (kTile <= 2 * kRows) return 0;
  const int rest = (length + kRows - 1) / kRows * kRows % kTile;
  return rest == 0 ? 0 : kTile - rest;
}

/// The tile that block `slot` works on. Tiles of all documents come first, then tiles of the rows past the last one
/// (`document` = -1), then nothing (rows() = 0). Of a chunk of the batch: the rows of documents that it holds.
template <int kTile>
struct DocumentTileOf {
  int document = -1;
  int tile = 0;    ///< within the document, or within the rows past the last
  int begin = 0;   ///< first row of the document in the tensor
  int length = 0;  ///< rows of the document

  /// The tile's first row in the document; of a first tile with a lead it is below 0.
  constexpr int first() const { return tile * kTile - (document < 0 ? 0 : tile_lead<kTile>(length)); }
  /// From first() on.
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
