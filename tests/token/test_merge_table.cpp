// SPDX-License-Identifier: Apache-2.0
// Pairs find their merges.
#include <gtest/gtest.h>

#include "token/merge_table.h"

namespace litespark::token {
namespace {

TEST(MergeTable, FindsEveryPairAndNoOther) {
  MergeTable table(3000);
  for (int32_t i = 0; i < 3000; ++i) table.insert(i, i * 7 % 3001, {static_cast<uint32_t>(i), i + 1});
  size_t count = 0;
  table.for_each([&](int32_t left, int32_t right, const Merge& merge) {
    EXPECT_EQ(right, left * 7 % 3001);
    EXPECT_EQ(merge.id, left + 1);
    ++count;
  });
  EXPECT_EQ(count, 3000u);
  for (int32_t i = 0; i < 3000; ++i) {
    EXPECT_EQ(table.find(i, i * 7 % 3001).rank, static_cast<uint32_t>(i));
    EXPECT_EQ(table.find(i, i * 7 % 3001 + 1).rank, UINT32_MAX);
  }
}

TEST(MergeTable, TakesTheLastOfEqualPairs) {
  MergeTable table(2);
  table.insert(1, 2, {0, 3});
  table.insert(1, 2, {9, 4});
  EXPECT_EQ(table.find(1, 2).rank, 9u);
  EXPECT_EQ(table.find(1, 2).id, 4);
}

}  // namespace
}  // namespace litespark::token
