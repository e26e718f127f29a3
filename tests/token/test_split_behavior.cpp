// SPDX-License-Identifier: Apache-2.0
// The five behaviours on the library's own example.
#include "token/split_behavior.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Strings = std::vector<std::string>;

Strings split(SplitBehavior behavior, std::string_view text, bool invert = false) {
  std::vector<TextRange> matches;
  Regex({false, "-"}).for_each_match(text, [&](TextRange range) { matches.push_back(range); });
  Strings out;
  for (const TextRange& range : apply_behavior(behavior, cover_text(text, matches, invert))) {
    out.emplace_back(text.substr(range.begin, range.end - range.begin));
  }
  return out;
}

TEST(SplitBehavior, TreatsDelimitersAsTold) {
  const std::string_view text = "the-final--countdown";
  EXPECT_EQ(split(SplitBehavior::kRemoved, text), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::kIsolated, text), (Strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithPrevious, text), (Strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithNext, text), (Strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split(SplitBehavior::kContiguous, text), (Strings{"the", "-", "final", "--", "countdown"}));
}

TEST(SplitBehavior, KeepsOnlyTheMatchesIfInverted) {
  EXPECT_EQ(split(SplitBehavior::kRemoved, "a--b", true), (Strings{"-", "-"}));
}

TEST(SplitBehavior, HandlesDelimitersAtBothEnds) {
  EXPECT_EQ(split(SplitBehavior::kMergedWithPrevious, "-a-"), (Strings{"-", "a-"}));
  EXPECT_EQ(split(SplitBehavior::kMergedWithNext, "-a-"), (Strings{"-a", "-"}));
  EXPECT_EQ(split(SplitBehavior::kContiguous, "--"), (Strings{"--"}));
  EXPECT_TRUE(split(SplitBehavior::kRemoved, "").empty());
}

}  // namespace
}  // namespace litespark::token
