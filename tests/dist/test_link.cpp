// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "dist/link.h"

namespace litespark::dist {
namespace {

TEST(Link, NamesEveryLateRankOnce) {
  EXPECT_EQ(no_word_text(std::array{3, 1, 3}), "no word from ranks 1 and 3");
  EXPECT_EQ(late_text(std::array{2}), "no word from rank 2 before the deadline");
  EXPECT_EQ(late_text(std::array{3, 1, 3}), "no word from ranks 1 and 3 before the deadline");
  EXPECT_EQ(late_text(std::array{3, 1, 0}), "no word from ranks 0, 1 and 3 before the deadline");
}

TEST(Link, ALateFailureKnowsWhomItMissesOnce) {
  const LinkFailure failure = LinkFailure::late(std::array{3, 1, 3});
  EXPECT_STREQ(failure.what(), "no word from ranks 1 and 3 before the deadline");
  EXPECT_EQ(failure.cause(), LinkFailure::Cause::kLate);
  EXPECT_EQ(failure.missed(), (std::vector<int>{1, 3}));
  EXPECT_EQ(LinkFailure("rank 1 is lost").cause(), LinkFailure::Cause::kFound);
}

}  // namespace
}  // namespace litespark::dist
