// SPDX-License-Identifier: Apache-2.0
// How the Hopper attention backward divides its work: tiles over the whole batch, whatever its documents; the order in
// which blocks start; whose turn it is to add to a query tile's gradient; the bytes of scratch. Pure functions, shared
// by host and kernels, proven on the CPU.
#pragma once

#include <cstdint>

#include "ops/cuda/heuristics/attention_tiles.h"

namespace litespark::cuda {

/// Keys that a block owns. Tiles count rows of the batch, not of a document: rows of two documents may share a tile, so
/// that short documents and odd lengths cost no tiles of their own.
inline constexpr int kGradientKeyTile = 128;

/// Queries of a step. A block then holds the same bytes for both head sizes, and a query tile's gradient has
/// kGradientTileFloats elements.
constexpr int gradient_query_tile(int head_dim) {
  return head_dim == 64 ? 128 : 64;
}
inline constexpr int kGradientTileFloats = 128 * 64;

/// Query tiles of `query_tile` rows that see some key of `key_tile`, `last_query` being the last row that sees the
/// tile's last key (-1: no documents).
constexpr TileRange gradient_query_tiles(int key_tile, int last_query, int query_tile) {
  const int begin = key_tile * kGradientKeyTile / query_tile;
  const int end = last_query < 0 ? 0 : last_query / query_tile + 1;
  return {.begin = begin, .end = end > begin ? end : begin};
}

/// Which (key tile, head of keys) the block that starts as number `slot` owns, and the order of additions to a query
/// tile. A section is a run of key tiles that shares no query tile with another one: a document where all are whole
/// tiles, else the batch. Within a section tiles start in groups, long work (early keys) first; within a group from the
/// last tile to the first, because block i is then one step behind block i + 1 at every query tile, and adds after it
/// without waiting. Additions follow the order of starting, so a block only ever waits for blocks that already run.
struct GradientOrder {
  int sections = 1;
  int tiles = 0;  ///< key tiles of a section
  int group = 1;  ///< tiles of a section that are expected to run at the same time
  int num_kv_heads = 1;

  struct Work {
    int key_tile = 0;
    int kv_head = 0;
  };

  constexpr int64_t slots() const { return int64_t{sections} * num_kv_heads * tiles; }

  constexpr Work work(int slot) const {
    const int chains = sections * num_kv_heads;
    const int chain = slot % chains;
    const int position = slot / chains;
    const int first = position / group * group;
    const int last = (first + group < tiles ? first + group : tiles) - 1;
    return {.key_tile = chain / num_kv_heads * tiles + last - (position - first), .kv_head = chain % num_kv_heads};
  }

  /// How many blocks add to a query tile before `key_tile` does. Key tiles `first` .. `last` see the query tile.
  constexpr int turn(int key_tile, int first, int last) const {
    const int section = key_tile / tiles * tiles;
    const int group_begin = section + (key_tile - section) / group * group;
    const int group_last = group_begin + group - 1;
    const int earlier_groups = group_begin > first ? group_begin - first : 0;
    return earlier_groups + (group_last < last ? group_last : last) - key_tile;
  }
};

/// What the order depends on. `uniform_length` > 0: all documents have that length and fill the batch.
struct GradientOrderRequest {
  int num_tokens = 0;
  int max_documents = 0;
  int uniform_length = 0;
  int num_kv_heads = 1;
};

/// Blocks that a group should hold over all sections and heads: those of an H200's 132 multiprocessors. A constant, so
/// that the order of additions, and with it the bits, depends on the batch alone.
inline constexpr int kGradientBlocksAtATime = 132;

constexpr GradientOrder gradient_order(const GradientOrderRequest& request) {
  const bool whole = request.uniform_length > 0 && request.uniform_length % kGradientKeyTile == 0;
  GradientOrder order{.sections = whole ? request.max_documents : 1, .num_kv_heads = request.num_kv_heads};
  order.tiles = tiles_of<kGradientKeyTile>(whole ? request.uniform_length : request.num_tokens);
  const int chains = order.sections * order.num_kv_heads;
  order.group = (kGradientBlocksAtATime + chains - 1) / chains;
  return order;
}

/// Byte offsets of the parts of the scratch, each a multiple of 256; linear in the tokens.
struct GradientScratch {
  int64_t dqueries = 0;        ///< f32 [H, query tiles, kGradientTileFloats], in the order of gradient_fragment
  int64_t statistics = 0;      ///< f32 [H, query tiles, 2, rows]: log-sum-exp times log2(e), then delta
  int64_t last_query = 0;      ///< i32 [N]: the last row that sees this key
  int64_t first_key_tile = 0;  ///< i32 [query tiles]: the first key tile that the tile's first row sees
  int64_t turns = 0;           ///< i32 [H, query tiles]: additions done
  int64_t ticket = 0;          ///< i32: blocks started
  int64_t bytes = 0;
};

constexpr GradientScratch gradient_scratch(int64_t num_tokens, int num_heads, int head_dim) {
  const int64_t query_tile = gradient_query_tile(head_dim);
  const int64_t query_tiles = (num_tokens + query_tile - 1) / query_tile;
  GradientScratch scratch;
  int64_t end = 0;
  const auto take = [&end](int64_t elements) {
    const int64_t start = end;
    end += (elements * 4 + 255) / 256 * 256;
    return start;
  };
  scratch.dqueries = take(num_heads * query_tiles * kGradientTileFloats);
  scratch.statistics = take(num_heads * query_tiles * 2 * query_tile);
  scratch.last_query = take(num_tokens);
  scratch.first_key_tile = take(query_tiles);
  scratch.turns = take(num_heads * query_tiles);
  scratch.ticket = take(1);
  scratch.bytes = end;
  return scratch;
}

}  // namespace litespark::cuda
