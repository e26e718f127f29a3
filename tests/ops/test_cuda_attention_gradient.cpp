// SPDX-License-Identifier: Apache-2.0
// The division of work of the Hopper attention backward: every visible pair belongs to a tile pair that is visited, the
// turns at a query tile are a count without gaps, and nobody waits for a block that starts later.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "core/backend_sizes.h"
#include "ops/cuda/heuristics/attention_choice.h"
#include "ops/cuda/heuristics/attention_gradient.h"

namespace litespark::cuda {
namespace {

/// Documents laid end to end, `tail` rows of none behind them, and what each row sees, counted pair by pair.
struct Batch {
  std::vector<int> lengths;
  int tail = 0;
  int window = 0;

  int tokens() const { return std::accumulate(lengths.begin(), lengths.end(), tail); }
  bool uniform() const {
    return tail == 0 && std::all_of(lengths.begin(), lengths.end(), [&](int length) { return length == lengths[0]; });
  }
  std::vector<int> document_begins() const {
    std::vector<int> begins;
    int begin = 0;
    for (const int length : lengths) {
      begins.insert(begins.end(), static_cast<size_t>(length), begin);
      begin += length;
    }
    return begins;
  }
  bool sees(const std::vector<int>& begins, int query, int key) const {
    return query < static_cast<int>(begins.size()) && key <= query && key >= begins[static_cast<size_t>(query)] &&
           (window == 0 || query - key < window);
  }
};

const Batch kBatches[] = {{{1}},
                          {{128}},
                          {{129}, 3},
                          {{640}},
                          {{384, 384, 384}},
                          {{300, 1, 127, 128, 129}, 5},
                          {{257, 257, 257, 257}},
                          {{512, 512}, 0, 100},
                          {{700, 20}, 260, 130},
                          {std::vector<int>(70, 3), 0, 2},
                          {{}, 200}};

/// last_query of every key, as the kernel's first pass defines it.
std::vector<int> last_queries(const Batch& batch) {
  const std::vector<int> begins = batch.document_begins();
  std::vector<int> last(static_cast<size_t>(batch.tokens()), static_cast<int>(begins.size()) - 1);
  for (int key = 0; key < static_cast<int>(begins.size()); ++key) {
    for (int query = key; query < batch.tokens(); ++query) {
      if (batch.sees(begins, query, key)) last[static_cast<size_t>(key)] = query;
    }
  }
  return last;
}

int first_key_tile(const Batch& batch, const std::vector<int>& begins, int query) {
  for (int key = 0; key <= query; ++key) {
    if (batch.sees(begins, query, key)) return key / kGradientKeyTile;
  }
  return 0;
}

TileRange query_tiles(const std::vector<int>& last, int key_tile, int rows) {
  const int end = std::min((key_tile + 1) * kGradientKeyTile, static_cast<int>(last.size()));
  return gradient_query_tiles(key_tile, last[static_cast<size_t>(end - 1)], rows);
}

GradientOrder order_of(const Batch& batch, int kv_heads) {
  return gradient_order({.num_tokens = batch.tokens(),
                         .max_documents = static_cast<int>(batch.lengths.size()),
                         .uniform_length = batch.uniform() ? batch.lengths[0] : 0,
                         .num_heads = 2 * kv_heads,
                         .num_kv_heads = kv_heads,
                         .head_dim = 128});
}

TEST(AttentionGradient, EveryVisiblePairLiesInAVisitedPairOfTiles) {
  for (const Batch& batch : kBatches) {
    const std::vector<int> begins = batch.document_begins();
    const std::vector<int> last = last_queries(batch);
    for (const int rows : {64, 128}) {
      for (int key = 0; key < batch.tokens(); ++key) {
        const TileRange range = query_tiles(last, key / kGradientKeyTile, rows);
        for (int query = key; query < batch.tokens(); ++query) {
          if (!batch.sees(begins, query, key)) continue;
          ASSERT_GE(query / rows, range.begin);
          ASSERT_LT(query / rows, range.end);
        }
      }
    }
  }
}

// The kernel masks a key's row by two numbers: queries from the key itself to its last one.
TEST(AttentionGradient, AKeysQueriesAreOneRunOfRows) {
  for (const Batch& batch : kBatches) {
    const std::vector<int> begins = batch.document_begins();
    const std::vector<int> last = last_queries(batch);
    for (int key = 0; key < batch.tokens(); ++key) {
      for (int query = 0; query < batch.tokens(); ++query) {
        const bool in_run = query >= key && query <= last[static_cast<size_t>(key)];
        ASSERT_EQ(in_run, batch.sees(begins, query, key)) << query << " " << key;
      }
    }
  }
}

TEST(AttentionGradient, BlocksOwnEveryKeyTileOfEveryHeadOnce) {
  for (const Batch& batch : kBatches) {
    for (const int kv_heads : {1, 3, 8, 200}) {
      const GradientOrder order = order_of(batch, kv_heads);
      std::set<std::pair<int, int>> owned;
      for (int slot = 0; slot < order.slots(); ++slot) {
        const GradientOrder::Work work = order.work(slot);
        owned.insert({work.key_tile, work.kv_head});
      }
      EXPECT_EQ(static_cast<int64_t>(owned.size()), order.slots());
      EXPECT_EQ(order.slots(), int64_t{tiles_of<kGradientKeyTile>(batch.tokens())} * kv_heads);
      if (owned.empty()) continue;
      EXPECT_EQ(owned.rbegin()->first, tiles_of<kGradientKeyTile>(batch.tokens()) - 1);
      EXPECT_EQ(owned.begin()->first, 0);
    }
  }
}

// A block that waited for one that starts later could wait for ever: the later one may need its multiprocessor.
TEST(AttentionGradient, TurnsCountEveryAdditionInTheOrderOfStarting) {
  for (const Batch& batch : kBatches) {
    const std::vector<int> begins = batch.document_begins();
    const std::vector<int> last = last_queries(batch);
    for (const int kv_heads : {1, 3, 50, 200}) {
      const GradientOrder order = order_of(batch, kv_heads);
      for (const int rows : {64, 128}) {
        std::map<std::pair<int, int>, int> additions;  // (head, query tile) -> done so far
        for (int slot = 0; slot < order.slots(); ++slot) {
          const auto [key_tile, kv_head] = order.work(slot);
          const TileRange range = query_tiles(last, key_tile, rows);
          for (int tile = range.begin; tile < range.end; ++tile) {
            const int first = first_key_tile(batch, begins, tile * rows);
            const int turn = GradientOrder::turn(key_tile, first);
            ASSERT_EQ(turn, (additions[{kv_head, tile}]++)) << "key tile " << key_tile << ", query tile " << tile;
          }
        }
        if (begins.empty()) continue;
        EXPECT_EQ(static_cast<int>(additions.size()), kv_heads * ((static_cast<int>(begins.size()) - 1) / rows + 1))
            << "a query tile with documents that nobody writes";
      }
    }
  }
}

TEST(AttentionGradient, EarlyKeysOfAFewChainsStartFirst) {
  const GradientOrder order = gradient_order({.num_tokens = 16384,
                                              .max_documents = 4,
                                              .uniform_length = 4096,
                                              .num_heads = 24,
                                              .num_kv_heads = 8,
                                              .head_dim = 128});
  EXPECT_EQ(order.sections, 4);
  EXPECT_EQ(order.tiles, 32);
  ASSERT_EQ(order.chains_at_once, 8);  // 8 x 6.3 MB of dQ
  for (int slot = 0; slot < 8 * 32; ++slot) {
    EXPECT_EQ(order.work(slot).key_tile, slot / 8) << slot;
    EXPECT_EQ(order.work(slot).kv_head, slot % 8) << slot;
  }
  EXPECT_EQ(order.work(8 * 32).key_tile, 32) << "then the second document";
}

TEST(AttentionGradient, ChainsAreSharedOutEvenly) {
  const GradientOrder order = gradient_order({.num_tokens = 8192,
                                              .max_documents = 8,
                                              .uniform_length = 1024,
                                              .num_heads = 25,
                                              .num_kv_heads = 25,
                                              .head_dim = 64});
  EXPECT_EQ(order.chains_at_once, 50) << "200 chains, at most 64 at once";
}

// The blocks of a device, each a step a unit of time: from the last query of their keys down, a step ahead of a block
// only where it is its turn.
TEST(AttentionGradient, BlocksHardlyEverWaitForTheirTurn) {
  struct Shape {
    int documents, length, heads, kv_heads, head_dim;
  };
  for (const Shape& shape : {Shape{4, 4096, 24, 8, 128}, Shape{16, 2048, 12, 12, 64}, Shape{8, 1024, 25, 25, 64},
                             Shape{4, 4096, 32, 32, 96}}) {
    const GradientOrder order = gradient_order({.num_tokens = shape.documents * shape.length,
                                                .max_documents = shape.documents,
                                                .uniform_length = shape.length,
                                                .num_heads = shape.heads,
                                                .num_kv_heads = shape.kv_heads,
                                                .head_dim = shape.head_dim});
    const int rows = gradient_query_tile(shape.head_dim);
    const int group = shape.heads / shape.kv_heads;
    const int tiles = shape.length / rows;
    std::vector<int64_t> free_at(132, 0);                    // when each multiprocessor can take a block
    std::map<std::pair<int, int>, std::vector<int64_t>> at;  // (section, head of keys) -> last addition to each step
    int64_t work = 0;
    for (int slot = 0; slot < order.slots(); ++slot) {
      const auto [key_tile, kv_head] = order.work(slot);
      const int section = key_tile / order.tiles;
      std::vector<int64_t>& last = at[{section, kv_head}];
      last.resize(static_cast<size_t>(tiles * group), -1);
      const auto processor = std::min_element(free_at.begin(), free_at.end());
      int64_t now = *processor;
      const int first_tile = key_tile % order.tiles * kGradientKeyTile / rows;
      for (int step = (tiles - first_tile) * group - 1; step >= 0; --step) {
        int64_t& previous = last[static_cast<size_t>(first_tile * group + step)];
        now = std::max(now + 1, previous + 1);
        previous = now;
        ++work;
      }
      *processor = now;
    }
    const int64_t end = *std::max_element(free_at.begin(), free_at.end());
    EXPECT_LT(static_cast<double>(end), 1.12 * static_cast<double>(work) / 132) << shape.length;
  }
}

TEST(AttentionGradient, ScratchIsLinearInTheTokens) {
  for (const int head_dim : {64, 96, 128}) {
    const GradientScratch small = gradient_scratch(1 << 14, 32, head_dim);
    const GradientScratch large = gradient_scratch(1 << 17, 32, head_dim);
    EXPECT_NEAR(static_cast<double>(large.bytes), 8.0 * static_cast<double>(small.bytes), 8 * 6 * 256);
    const int64_t sums = int64_t{4} * 32 * (1 << 17);
    EXPECT_LT(large.bytes, sums * (head_dim + 3));
  }
}

TEST(AttentionGradient, PartsOfTheScratchDoNotOverlap) {
  for (const int head_dim : {64, 96, 128}) {
    for (const int tokens : {1, 63, 64, 129, 4097}) {
      const GradientScratch scratch = gradient_scratch(tokens, 3, head_dim);
      const int64_t tiles = (tokens + gradient_query_tile(head_dim) - 1) / gradient_query_tile(head_dim);
      EXPECT_EQ(scratch.dqueries, 0);
      EXPECT_GE(scratch.statistics - scratch.dqueries, 3 * tiles * gradient_tile_floats(head_dim) * 4);
      EXPECT_GE(scratch.last_query - scratch.statistics, 3 * tiles * 2 * gradient_query_tile(head_dim) * 4);
      EXPECT_GE(scratch.first_key_tile - scratch.last_query, tokens * 4);
      EXPECT_GE(scratch.turns - scratch.first_key_tile, tiles * 4);
      EXPECT_GE(scratch.ticket - scratch.turns, 3 * tiles * 4);
      EXPECT_GE(scratch.bytes - scratch.ticket, 4);
      for (const int64_t start : {scratch.statistics, scratch.last_query, scratch.turns, scratch.ticket}) {
        EXPECT_EQ(start % 256, 0);
      }
    }
  }
}

TEST(AttentionChoice, OurForwardRunsWhereItWasMeasuredToBeFaster) {
  for (const int head_dim : {64, 128}) {
    EXPECT_TRUE(hopper_forward_is_faster(head_dim, 4096));
    EXPECT_TRUE(hopper_forward_is_faster(head_dim, 2048));
    EXPECT_FALSE(hopper_forward_is_faster(head_dim, 1024));
  }
  for (const int head_dim : {96, 256}) EXPECT_TRUE(hopper_forward_is_faster(head_dim, 1024));
}

TEST(AttentionChoice, OurBackwardRunsWhereverThereIsOne) {
  const auto prefers_own = [](int head_dim) {
    op::AttentionShape shape;
    shape.head_dim = head_dim;
    return gpu_prefers_own_attention_gradient(shape);
  };
  EXPECT_TRUE(prefers_own(64));
  EXPECT_TRUE(prefers_own(96));
  EXPECT_TRUE(prefers_own(128));
  EXPECT_FALSE(prefers_own(256));
}

}  // namespace
}  // namespace litespark::cuda
