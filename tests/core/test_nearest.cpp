// SPDX-License-Identifier: Apache-2.0
// Distances counted by hand; suggestions must help, and must stay silent when nothing is near.
#include <gtest/gtest.h>

#include <vector>

#include "core/nearest.h"

namespace litespark {
namespace {

TEST(Nearest, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1);
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // optimal string alignment: a swapped pair is not edited again
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
}

TEST(Nearest, HyphenAndUnderscoreAreTheSameLetter) {
  EXPECT_EQ(edit_distance("micro-batch", "micro_batch"), 0);
}

TEST(Nearest, FindsTheClosestNameOrNone) {
  const std::vector<std::string> names = {"train", "tokenize", "plan", "prepare"};
  EXPECT_EQ(nearest_name("trian", names), "train");
  EXPECT_EQ(nearest_name("tokenise", names), "tokenize");
  EXPECT_EQ(nearest_name("plna", names), "plan");
  EXPECT_EQ(nearest_name("xyzzy", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'a'), names), "");
}

}  // namespace
}  // namespace litespark
