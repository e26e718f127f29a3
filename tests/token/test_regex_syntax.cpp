// SPDX-License-Identifier: Apache-2.0
// Oniguruma's spelling becomes PCRE2's.
#include "token/regex_syntax.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

TEST(RegexSyntax, SpellsOutSpacesWordsAndHexDigits) {
  EXPECT_TRUE(to_pcre2_syntax("\\s").starts_with("[\\t-\\r"));
  EXPECT_TRUE(to_pcre2_syntax("\\S").starts_with("[^\\t-\\r"));
  EXPECT_TRUE(to_pcre2_syntax("[^\\s]").starts_with("[^\\t-\\r"));
  EXPECT_EQ(to_pcre2_syntax("\\h"), "[0-9A-Fa-f]");
}

TEST(RegexSyntax, AddsLateCharactersToPropertiesInsideAndOutsideClasses) {
  EXPECT_TRUE(contains(to_pcre2_syntax("\\p{L}"), "\\x{31350}-\\x{323AF}"));
  EXPECT_TRUE(to_pcre2_syntax("\\P{L}").starts_with("[^\\p{L}"));
  EXPECT_TRUE(to_pcre2_syntax("\\p{^N}").starts_with("[^\\p{N}"));
  EXPECT_TRUE(to_pcre2_syntax("[\\p{L}x]").starts_with("[\\p{L}\\x"));
  EXPECT_TRUE(contains(to_pcre2_syntax("\\p{Han}"), "\\p{sc:Han}"));
}

TEST(RegexSyntax, TurnsRubysMultilineIntoDotAll) {
  EXPECT_EQ(to_pcre2_syntax("(?m:.)"), "(?s:.)");
  EXPECT_EQ(to_pcre2_syntax("(?i:a)(?!b)(?=c)(?<=d)"), "(?i:a)(?!b)(?=c)(?<=d)");
}

TEST(RegexSyntax, RefusesClassesThatMeanSomethingElseElsewhere) {
  EXPECT_TRUE(contains(error_text<DataError>([] { to_pcre2_syntax("[a[b]]"); }), "[["));
  EXPECT_TRUE(contains(error_text<DataError>([] { to_pcre2_syntax("[a&&b]"); }), "&&"));
  EXPECT_EQ(to_pcre2_syntax("[[:alpha:]]"), "[[:alpha:]]");
}

TEST(RegexSyntax, EscapesEveryOperator) {
  EXPECT_EQ(escape_regex("a.b"), "a\\.b");
  EXPECT_EQ(escape_regex("(["), "\\(\\[");
}

}  // namespace
}  // namespace litespark::token
