// SPDX-License-Identifier: Apache-2.0
// Finding matches, empty ones too, and refusing patterns that would run away.
#include <chrono>

#include "token/regex.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

std::vector<std::string> matches(const PatternSpec& pattern, std::string_view text) {
  std::vector<std::string> found;
  Regex(pattern).for_each_match(
      text, [&](TextRange range) { found.emplace_back(text.substr(range.begin, range.end - range.begin)); });
  return found;
}

using Strings = std::vector<std::string>;

TEST(Regex, FindsMatchesLeftToRight) {
  EXPECT_EQ(matches({true, "\\p{L}+|\\d"}, "ab1é2"), (Strings{"ab", "1", "é", "2"}));
  EXPECT_EQ(matches({false, "a.b"}, "a.b axb a.b"), (Strings{"a.b", "a.b"}));
  EXPECT_EQ(matches({true, "x"}, std::string(5000, '.') + "x"), (Strings{"x"}));
}

TEST(Regex, SkipsTheEmptyMatchRightAfterAMatch) {
  EXPECT_EQ(matches({true, "a*"}, "aab"), (Strings{"aa", ""}));
  EXPECT_EQ(matches({true, "(?=[A-Z])"}, "aBéC"), (Strings{"", ""}));
}

TEST(Regex, TakesLineEndsForDollar) {
  EXPECT_EQ(matches({true, "\\w$"}, "ab\ncd\n"), (Strings{"b", "d"}));
}

// fault:D7
TEST(Regex, RefusesExponentialBacktrackingInBoundedTime) {
  const Regex regex({true, "(a+)+$"});
  const std::string text = std::string(40, 'a') + "b";
  EXPECT_TRUE(
      contains(error_text<DataError>([&] { regex.for_each_match(text, [](TextRange) {}); }), "cannot be matched"));
}

// fault:D7
TEST(Regex, RefusesQuadraticSearchInBoundedTime) {
  const Regex regex({true, "(?:ax?)+[bd]"});
  const std::string text(1 << 16, 'a');
  EXPECT_TRUE(contains(error_text<DataError>([&] { regex.for_each_match(text, [](TextRange) {}); }), "takes too long"));
}

TEST(Regex, MatchesOneVeryLongMatch) {
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(matches({true, "(?:a|b)+"}, text).size(), 1u);
}

// fault:D7
TEST(Regex, NamesAPatternThatDoesNotCompile) {
  EXPECT_TRUE(contains(error_text<DataError>([] { Regex({true, "a(b"}); }), "a(b"));
  EXPECT_TRUE(contains(error_text<DataError>([] { Regex({true, "((a{1000}){1000}){1000}"}); }), "does not compile"));
  EXPECT_TRUE(contains(error_text<DataError>([] { Regex({true, std::string(100000, 'a')}); }), "too long"));
  EXPECT_TRUE(contains(error_text<DataError>([] { Regex({true, ""}); }), "empty"));
  EXPECT_TRUE(contains(error_text<DataError>([] { Regex({true, "\xFF"}); }), "UTF-8"));
}

}  // namespace
}  // namespace litespark::token
