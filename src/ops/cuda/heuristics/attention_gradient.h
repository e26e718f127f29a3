// SPDX-License-Identifier: Apache-2.0
// How the Hopper attention backward divides its work: tiles over the whole batch, whatever its documents; the order in
// which blocks start; whose turn it is to add to a query tile's gradient; the bytes of scratch. Pure functions, shared
// by host and kernels, proven on the CPU.
#pragma once

#include <cstdint>

#include "core/op/attention.h"
#include "ops/cuda/heuristics/attention_tiles.h"

namespace litespark::cuda {

/// Keys that a block owns. Tiles count rows of the batch, not of a document: rows of two documents may share a tile, so
/// that short documents and odd lengths cost no tiles of their own.
inline constexpr int kGradientKeyTile = 128;

/// Queries of a step: as many as registers hold the scores of.
constexpr int gradient_query_tile(int head_dim) {
  return head_dim == 64 ? 128 : 64;
}
/// Elements of a query tile's gradient.
constexpr int gradient_tile_floats(int head_dim) {
  return gradient_query_tile(head_dim) * head_dim;
}

/// Which rows of queries may see which rows of keys at all, by their order in the micro-batch; documents and windows
/// leave some of these. Of whole attention, or of a part that context ranks share: there, every key that some query may
/// see comes before the same queries.
struct GradientSight {
  static constexpr int kOwnRow = -1;
  int num_keys = 0;           ///< those behind are later than all queries
  int first_query = kOwnRow;  ///< the first that may see a key; kOwnRow: the one of the key's own row

  constexpr int first_query_of(int key) const { return first_query == kOwnRow ? key : first_query; }
};

/// Of a part whose tensors have `num_rows` rows.
constexpr GradientSight gradient_sight(const op::ContextPart& part, int num_rows) {
  if (part.query_rank == part.key_rank) return {.num_keys = num_rows};
  if (part.query_rank > part.key_rank) return {.num_keys = num_rows / 2, .first_query = 0};
  return {.num_keys = num_rows, .first_query = num_rows / 2};
}

/// Query tiles of `query_tile` rows that see some key of `key_tile`, `last_query` being the last row that sees the
/// tile's last key (-1: no documents).
constexpr TileRange gradient_query_tiles(int key_tile, int last_query, int query_tile) {
  const int begin = key_tile * kGradientKeyTile / query_tile;
  const int end = last_query < 0 ? 0 : last_query / query_tile + 1;
  return {.begin = begin, .end = end > begin ? end : begin};
}
/// The same of a part, the tile's last key being one of those that some query may see.
constexpr TileRange gradient_query_tiles(int key_tile, const GradientSight& sight, int last_query, int query_tile) {
  const int first_key = key_tile * kGradientKeyTile;
  const int first_query = sight.first_query_of(first_key);
  if (first_key >= sight.num_keys || last_query < first_query) return {};
  return {.begin = first_query / query_tile, .end = last_query / query_tile + 1};
}

/// Which (key tile, head of keys) the block that starts as number `slot` owns, and the order of additions to a query
/// tile. A section is a run of key tiles that shares no query tile with another one: a document where all are whole
/// tiles, else the batch. A chain is the key tiles of one section and head.
///
/// The sums of dQ do not fit the L2 cache, and adding to what is not there takes more than twice as long. So blocks
/// that run together should add to the same query tiles at about the same time: all walk down from the last query that
/// sees their keys, so that those of a chain set out side by side, and only a few chains are worked on at once. Of
/// those the early keys, which have the most work, come first. Additions follow the order of starting, so a block only
/// ever waits for blocks that already run, and those came by before it did.
struct GradientOrder {
  int sections = 1;
  int tiles = 0;  ///< key tiles of a section
  int num_kv_heads = 1;
  int chains_at_once = 1;

  struct Work {
    int key_tile = 0;
    int kv_head = 0;
  };

  constexpr int chains() const { return sections * num_kv_heads; }
  constexpr int64_t slots() const { return int64_t{chains()} * tiles; }

  constexpr Work work(int slot) const {
    const int first_chain = slot / (chains_at_once * tiles) * chains_at_once;
    const int together = first_chain + chains_at_once < chains() ? chains_at_once : chains() - first_chain;
    const int chain = first_chain + slot % (chains_at_once * tiles) % together;
    const int position = slot % (chains_at_once * tiles) / together;
    return {.key_tile = chain / num_kv_heads * tiles + position, .kv_head = chain % num_kv_heads};
  }

  /// How many blocks add to a query tile before `key_tile` does, `first` being the first key tile that it sees: all
  /// from that one on until the last do.
  static constexpr int turn(int key_tile, int first) { return key_tile - first; }
};

/// What the order depends on. `uniform_length` > 0: all documents have that length and fill the batch.
struct GradientOrderRequest {
  int num_tokens = 0;
  int max_documents = 0;
  int uniform_length = 0;
  int num_heads = 1;
  int num_kv_heads = 1;
  int head_dim = 0;
};

/// Key tiles in the chains that are worked on at once: four for each of an H200's 132 multiprocessors, so that none is
/// idle while long blocks end; unless their dQ would not fit the L2 cache (50 MB); but never fewer than four chains.
/// Constants, so that the order of additions, and with it the bits, depends on the batch alone. Measured:
/// bench/results/2026-12-01-h200-attention-order.txt.
inline constexpr int kGradientTilesAtOnce = 512;
inline constexpr int64_t kGradientBytesAtOnce = int64_t{48} << 20;
inline constexpr int kGradientChainsAtLeast = 4;

constexpr GradientOrder gradient_order(const GradientOrderRequest& request) {
  const bool whole = request.uniform_length > 0 && request.uniform_length % kGradientKeyTile == 0;
  GradientOrder order{.sections = whole ? request.max_documents : 1, .num_kv_heads = request.num_kv_heads};
  order.tiles = tiles_of<kGradientKeyTile>(whole ? request.uniform_length : request.num_tokens);
  if (order.slots() == 0) return order;
  const int64_t chain_bytes =
      int64_t{4} * order.tiles * kGradientKeyTile * request.head_dim * (request.num_heads / request.num_kv_heads);
  const int64_t fitting = kGradientBytesAtOnce / chain_bytes;
  int64_t at_once = (kGradientTilesAtOnce + order.tiles - 1) / order.tiles;
  if (at_once > fitting) at_once = fitting;
  if (at_once < kGradientChainsAtLeast) at_once = kGradientChainsAtLeast;
  // Shared out evenly: a few chains left over would keep a few multiprocessors busy, and the others waiting.
  const int64_t rounds = (order.chains() + at_once - 1) / at_once;
  order.chains_at_once = static_cast<int>((order.chains() + rounds - 1) / rounds);
  return order;
}

/// Of a query tile that sees no key of a part: nobody writes its sum.
inline constexpr int kNoKeyTile = -1;

/// Byte offsets of the parts of the scratch, each a multiple of 256; linear in the tokens.
struct GradientScratch {
  int64_t dqueries = 0;        ///< f32 [H, query tiles, gradient_tile_floats], in the order of gradient_fragment
  int64_t statistics = 0;      ///< f32 [H, query tiles, 2, rows]: log-sum-exp times log2(e), then delta
  int64_t last_query = 0;      ///< i32 [N]: the last row that sees this key
  int64_t first_key_tile = 0;  ///< i32 [query tiles]: the first key tile that the tile sees, or kNoKeyTile
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
  scratch.dqueries = take(num_heads * query_tiles * gradient_tile_floats(head_dim));
  scratch.statistics = take(num_heads * query_tiles * 2 * query_tile);
  scratch.last_query = take(num_tokens);
  scratch.first_key_tile = take(query_tiles);
  scratch.turns = take(num_heads * query_tiles);
  scratch.ticket = take(1);
  scratch.bytes = end;
  return scratch;
}

}  // namespace litespark::cuda
