// SPDX-License-Identifier: Apache-2.0
// What queries see of keys in a part of attention, as the Hopper backward's first pass writes it down: held against all
// pairs of rows. Every pair lies in a pair of tiles that is visited, a mask is two numbers a key, and turns at a query
// tile are a count without gaps.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "block.h"
#include "core/error.h"
#define __CUDACC__
#include "ops/cuda/device/attention_gradient_rows.cuh"
#undef __CUDACC__

namespace litespark::cuda {
namespace {

/// Documents laid end to end, and `tail` rows of none behind them; the queries of one rank and the keys of another.
struct Part {
  std::vector<int> lengths;
  int tail = 0;
  int window = 0;
  op::ContextPart ranks;

  int batch_rows() const { return std::accumulate(lengths.begin(), lengths.end(), tail); }
  int rows() const { return batch_rows() / ranks.ranks; }
  int row_in_batch(int rank, int row) const {
    const int length = rows() / 2;
    return static_cast<int>(op::context_chunk(ranks.ranks, rank, row / length)) * length + row % length;
  }
  int document(int batch_row) const {
    int end = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      end += lengths[i];
      if (batch_row < end) return static_cast<int>(i);
    }
    return -1;
  }
  bool sees(int query, int key) const {
    const int query_row = row_in_batch(ranks.query_rank, query);
    const int key_row = row_in_batch(ranks.key_rank, key);
    return key_row <= query_row && document(key_row) >= 0 && document(key_row) == document(query_row) &&
           (window == 0 || query_row - key_row < window);
  }
};

/// What the first pass leaves.
struct Prepared {
  Prepared(const Part& part, int tile_rows);

  GradientSight sight;
  std::vector<int> last_query;
  std::vector<int> first_key_tile;
};

Prepared::Prepared(const Part& part, int tile_rows) : sight(gradient_sight(part.ranks, part.rows())) {
  std::vector<int32_t> offsets = {0};
  for (const int length : part.lengths) offsets.push_back(offsets.back() + length);
  const auto documents = static_cast<int32_t>(part.lengths.size());
  const AttentionArguments arguments{.offsets = offsets.data(),
                                     .num_documents = &documents,
                                     .num_tokens = part.rows(),
                                     .window = part.window,
                                     .max_documents = documents,
                                     .part = part.ranks};
  const DocumentTable table = document_table(arguments);
  for (int row = 0; row < part.rows(); ++row) last_query.push_back(last_query_of_part(arguments, table, row));
  for (int row = 0; row < part.rows(); row += tile_rows) {
    first_key_tile.push_back(first_key_tile_of_part(arguments, table, row, tile_rows));
  }
}

TileRange visited_tiles(const Prepared& prepared, int key_tile, int tile_rows) {
  const int last_key = std::min((key_tile + 1) * kGradientKeyTile, prepared.sight.num_keys) - 1;
  return gradient_query_tiles(key_tile, prepared.sight, prepared.last_query[static_cast<size_t>(last_key)], tile_rows);
}

/// All pairs of ranks of each batch: chunks longer and shorter than a tile, and off it; documents that fill, cross and
/// miss chunks; rows of none in some chunks or in all.
template <class Body>
void for_each_part(const Body& body) {
  const Part batches[] = {{{4}},
                          {{1536}},
                          {{1100, 4}},
                          {{300, 1, 127, 128, 129}, 511},
                          {{1176}, 0, 100},
                          {{700, 20}, 264, 130},
                          {{500, 500}, 8, 300},
                          {std::vector<int>(70, 3), 6, 2},
                          {std::vector<int>(40, 30)},
                          {{}, 264}};
  for (Part part : batches) {
    for (const int ranks : {1, 2, 3, 4}) {
      if (part.batch_rows() % (2 * ranks) != 0) continue;
      for (int query_rank = 0; query_rank < ranks; ++query_rank) {
        for (int key_rank = 0; key_rank < ranks; ++key_rank) {
          part.ranks = {.ranks = ranks, .query_rank = query_rank, .key_rank = key_rank};
          SCOPED_TRACE(testing::Message() << part.batch_rows() << " rows, window " << part.window << ", " << ranks
                                          << " ranks, queries of " << query_rank << ", keys of " << key_rank);
          body(part);
        }
      }
    }
  }
}

TEST(AttentionGradientRows, AKeysQueriesAreOneRunOfRows) {
  for_each_part([](const Part& part) {
    const Prepared prepared(part, 64);
    for (int key = 0; key < part.rows(); ++key) {
      const int first = prepared.sight.first_query_of(key);
      const int last = prepared.last_query[static_cast<size_t>(key)];
      for (int query = 0; query < part.rows(); ++query) {
        const bool in_run = key < prepared.sight.num_keys && query >= first && query <= last;
        ASSERT_EQ(in_run, part.sees(query, key)) << query << " " << key;
      }
    }
  });
}

TEST(AttentionGradientRows, LastQueriesGrowWithTheKey) {
  for_each_part([](const Part& part) {
    const Prepared prepared(part, 64);
    EXPECT_TRUE(std::ranges::is_sorted(prepared.last_query));
  });
}

TEST(AttentionGradientRows, EveryVisiblePairLiesInAVisitedPairOfTiles) {
  for_each_part([](const Part& part) {
    for (const int tile_rows : {64, 128}) {
      const Prepared prepared(part, tile_rows);
      for (int key = 0; key < part.rows(); ++key) {
        const TileRange range = visited_tiles(prepared, key / kGradientKeyTile, tile_rows);
        for (int query = 0; query < part.rows(); ++query) {
          if (!part.sees(query, key)) continue;
          ASSERT_GE(query / tile_rows, range.begin);
          ASSERT_LT(query / tile_rows, range.end);
        }
      }
    }
  });
}

// A tile that nobody visits must say so: its sum is never written.
TEST(AttentionGradientRows, TurnsCountEveryAdditionInTheOrderOfStarting) {
  for_each_part([](const Part& part) {
    for (const int tile_rows : {64, 128}) {
      const Prepared prepared(part, tile_rows);
      const GradientOrder order = gradient_order({.num_tokens = part.rows(),
                                                  .max_documents = static_cast<int>(part.lengths.size()),
                                                  .num_heads = 6,
                                                  .num_kv_heads = 3,
                                                  .head_dim = 128});
      std::map<std::pair<int, int>, int> additions;  // (head, query tile) -> done so far
      for (int slot = 0; slot < order.slots(); ++slot) {
        const auto [key_tile, kv_head] = order.work(slot);
        const TileRange range = visited_tiles(prepared, key_tile, tile_rows);
        for (int tile = range.begin; tile < range.end; ++tile) {
          const int turn = GradientOrder::turn(key_tile, prepared.first_key_tile[static_cast<size_t>(tile)]);
          ASSERT_EQ(turn, (additions[{kv_head, tile}]++)) << "key tile " << key_tile << ", query tile " << tile;
        }
      }
      for (size_t tile = 0; tile < prepared.first_key_tile.size(); ++tile) {
        const bool is_visited = additions.contains({0, static_cast<int>(tile)});
        ASSERT_EQ(is_visited, prepared.first_key_tile[tile] != kNoKeyTile) << "query tile " << tile;
      }
    }
  });
}

}  // namespace
}  // namespace litespark::cuda
