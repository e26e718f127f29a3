// SPDX-License-Identifier: Apache-2.0
// UTF-8 decoding, repair, and character classes at their edges.
#include <gtest/gtest.h>

#include "token/unicode.h"

namespace litespark::token {
namespace {

TEST(Unicode, AsciiAndTableAgreeOnEveryAsciiCharacter) {
  for (char32_t c = 0; c < 128; ++c) EXPECT_EQ(char_class(c), kAsciiClass[c]) << static_cast<uint32_t>(c);
}

TEST(Unicode, KnowsLettersNumbersAndSpacesOfManyScripts) {
  for (const char32_t c : {U'a', U'é', U'中', U'я', U'ع', U'ſ', U'\U0001D518'}) EXPECT_TRUE(char_class(c) & kLetter);
  for (const char32_t c : {U'7', U'²', U'Ⅷ', U'１', U'½', U'㉓'}) EXPECT_TRUE(char_class(c) & kNumber);
  for (const char32_t c : {U' ', U'\t', U'\n', U'\u0085', U'\u00A0', U'\u2028', U'\u3000'}) {
    EXPECT_TRUE(char_class(c) & kSpace);
  }
  EXPECT_TRUE(char_class(U'\u0301') & kMark);
  EXPECT_TRUE(char_class(U'«') & kPunctuation);
  EXPECT_TRUE(char_class(U'\u200D') & kWord);
}

TEST(Unicode, CountsTheMongolianVowelSeparatorAndTheZeroWidthSpaceAsNoSpaces) {
  EXPECT_FALSE(char_class(U'\u180E') & kSpace);
  EXPECT_FALSE(char_class(U'\u200B') & kSpace);
  EXPECT_FALSE(char_class(U'\uFEFF') & kSpace);
}

TEST(Unicode, KnowsCharactersThatUnicode16Added) {
  EXPECT_TRUE(char_class(0x31350) & kLetter);
  EXPECT_TRUE(char_class(0x10D40) & kNumber);
}

TEST(Unicode, DecodesWhatItEncodes) {
  for (const char32_t c : {U'\0', U'a', U'\u0080', U'\u07FF', U'\u0800', U'\uFFFD', U'\U00010000', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(c, &text);
    const DecodedChar decoded = decode_char(text, 0);
    EXPECT_EQ(decoded.code_point, c);
    EXPECT_EQ(decoded.length, text.size());
    EXPECT_EQ(char_length(text[0]), text.size());
    EXPECT_EQ(previous_char("x" + text, 1 + text.size()), 1u);
  }
}

// fault:D9
TEST(Unicode, RepairsEveryMaximalInvalidPartWithOneReplacement) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(repair_utf8("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(repair_utf8("\xE4\xB8"), r);              // a cut character is one part
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), r + r + r);  // a surrogate is none
  EXPECT_EQ(repair_utf8("\xC0\x80"), r + r);          // an overlong form is none
  EXPECT_EQ(repair_utf8("\xF0\x9F\x91x"), r + "x");
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(repair_utf8("né中👋"), "né中👋");
}

TEST(Unicode, TellsValidFromInvalid) {
  EXPECT_TRUE(is_valid_utf8(std::string_view("a\0é", 4)));
  EXPECT_FALSE(is_valid_utf8("\xED\xA0\x80"));
  EXPECT_FALSE(is_valid_utf8("\xE4\xB8"));
}

}  // namespace
}  // namespace litespark::token
