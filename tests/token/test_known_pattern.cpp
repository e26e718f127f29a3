// SPDX-License-Identifier: Apache-2.0
// The hand-written scanners against PCRE2 on the same patterns: every character alone and random mixtures.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "token/known_pattern.h"
#include "token/regex.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

struct Named {
  KnownPattern known;
  std::string_view pattern;
};
constexpr Named kPatterns[] = {
    {KnownPattern::kGpt2, kGpt2Pattern}, {KnownPattern::kLlama3, kLlama3Pattern}, {KnownPattern::kQwen, kQwenPattern}};

std::vector<size_t> ends_by_regex(const Regex& regex, std::string_view text) {
  std::vector<size_t> ends;
  regex.for_each_match(text, [&](TextRange range) { ends.push_back(range.end); });
  return ends;
}

std::vector<size_t> ends_by_scanner(KnownPattern pattern, std::string_view text) {
  std::vector<size_t> ends;
  for (size_t begin = 0; begin < text.size();) {
    begin = next_word_end(pattern, text, begin);
    ends.push_back(begin);
  }
  return ends;
}

TEST(KnownPattern, RecognisesExactlyTheKnownSpellings) {
  for (const Named& named : kPatterns) EXPECT_EQ(find_known_pattern(named.pattern), named.known);
  EXPECT_FALSE(find_known_pattern(std::string(kGpt2Pattern) + " "));
}

TEST(KnownPattern, SplitsEveryCharacterAsThePatternDoes) {
  // Each character stands before a letter, after a space and between others, so that all alternatives are tried.
  std::string text;
  for (char32_t c = 1; c < 0x32400; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    append_utf8(c, &text);
    text += "a ";
    append_utf8(c, &text);
    append_utf8(c, &text);
    text += ". '";
    append_utf8(c, &text);
    text += '\n';
  }
  for (const Named& named : kPatterns) {
    const Regex regex({true, std::string(named.pattern)});
    EXPECT_EQ(ends_by_scanner(named.known, text), ends_by_regex(regex, text)) << named.pattern;
  }
}

TEST(KnownPattern, SplitsRandomMixturesAsThePatternDoes) {
  const std::vector<std::string_view> parts = {
      "a",      "Z",      "é",      "中",     "7",      "٣",    "½",  " ",   "  ",  "\t", "\n",    "\r",  "\r\n",
      "\u00A0", "\u3000", "\u2028", "'s",     "'S",     "'",    "'ſ", "'re", "'Ll", "'v", "'VE",   "!",   "...",
      "_",      "-",      "👋",      "\u0301", "\u200B", "\x7F", "ab", "don", "'d",  "'m", "12345", "\x01"};
  std::mt19937 random(7);
  for (const Named& named : kPatterns) {
    const Regex regex({true, std::string(named.pattern)});
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (size_t count = random() % 12 + 1; count > 0; --count) text += parts[random() % parts.size()];
      ASSERT_EQ(ends_by_scanner(named.known, text), ends_by_regex(regex, text)) << testing::PrintToString(text);
    }
  }
}

}  // namespace
}  // namespace litespark::token
