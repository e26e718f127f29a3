// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "core/arena_map.h"
#include "core/rng.h"

namespace litespark {
namespace {

struct Block {
  int64_t begin;
  int64_t end;
  OpRange ops;
};

// Looks at every block, lowest first.
int64_t plain_first_fit(std::vector<Block> blocks, int64_t bytes, OpRange ops) {
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
  int64_t offset = 0;
  for (const Block& block : blocks) {
    if (block.ops.last < ops.first || ops.last < block.ops.first) continue;
    if (offset + bytes <= block.begin) break;
    offset = std::max(offset, block.end);
  }
  return offset;
}

TEST(ArenaMap, FindsTheGapThatALookAtEveryBlockFinds) {
  const RandomStream random(11, 1);
  uint64_t draw = 0;
  const auto below = [&](int32_t limit) {
    return static_cast<int32_t>(random.below(draw++, static_cast<uint64_t>(limit)));
  };
  for (int round = 0; round < 200; ++round) {
    const int32_t num_ops = 1 + below(70);
    const int32_t longest = 1 + below(num_ops);
    ArenaMap arena(num_ops);
    std::vector<Block> blocks;
    const auto draw_ops = [&] {
      const int32_t first = below(num_ops);
      return OpRange{first, std::min(num_ops - 1, first + below(longest))};
    };
    for (int i = 0; i < 12; ++i) {  // what stands there already, whatever lies beside it
      const int64_t begin = below(3000);
      blocks.push_back({begin, begin + 1 + below(300), draw_ops()});
      arena.take(begin, blocks.back().end, blocks.back().ops);
    }
    for (int i = 0; i < 60; ++i) {
      const OpRange ops = draw_ops();
      const int64_t bytes = 1 + below(500);
      const int64_t offset = arena.first_fit(bytes, ops);
      ASSERT_EQ(offset, plain_first_fit(blocks, bytes, ops)) << round << " " << i;
      arena.take(offset, offset + bytes, ops);
      blocks.push_back({offset, offset + bytes, ops});
    }
  }
}

// As activations from forward to backward do. A look at every block would take 10^10 of them.
TEST(ArenaMap, StacksAHundredThousandNestedLifetimes) {
  constexpr int32_t kNum = 100'000;
  ArenaMap arena(2 * kNum);
  for (int32_t i = 0; i < kNum; ++i) {
    const OpRange ops{i, 2 * kNum - 1 - i};
    const int64_t offset = arena.first_fit(256, ops);
    ASSERT_EQ(offset, int64_t{256} * i);
    arena.take(offset, offset + 256, ops);
  }
  EXPECT_EQ(arena.first_fit(256, {0, 0}), 256);
}

TEST(ByteRuns, JoinsRunsThatTouch) {
  ByteRuns runs;
  runs.add(0, 10);
  runs.add(20, 30);
  EXPECT_EQ(runs.next_fit(0, 10), 10);
  EXPECT_EQ(runs.next_fit(0, 11), 30);
  runs.add(10, 20);
  EXPECT_EQ(runs.next_fit(0, 1), 30);
  EXPECT_EQ(runs.next_fit(40, 1), 40);
}

}  // namespace
}  // namespace litespark
