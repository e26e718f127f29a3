// SPDX-License-Identifier: Apache-2.0
// The byte alphabet is a bijection with the known landmarks.
#include <gtest/gtest.h>

#include <set>

#include "token/byte_alphabet.h"

namespace litespark::token {
namespace {

TEST(ByteAlphabet, GivesEveryByteItsOwnCharacterAndBack) {
  std::set<char32_t> chars;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = byte_to_char(static_cast<uint8_t>(byte));
    EXPECT_TRUE(chars.insert(c).second);
    EXPECT_EQ(char_to_byte(c), static_cast<uint8_t>(byte));
  }
}

TEST(ByteAlphabet, WritesASpaceAsGWithDotAndANewlineAsCWithDot) {
  EXPECT_EQ(byte_to_char(' '), U'\u0120');
  EXPECT_EQ(byte_to_char('\n'), U'\u010A');
  EXPECT_EQ(byte_to_char('A'), U'A');
  EXPECT_EQ(byte_to_char(0xAD), U'\u0143');
}

TEST(ByteAlphabet, LeavesATokenWithAStrangerAsItIs) {
  std::string text;
  append_byte_chars(" é", &text);
  std::string bytes;
  append_token_bytes(text, &bytes);
  EXPECT_EQ(bytes, " é");
  bytes.clear();
  append_token_bytes("Ġ中", &bytes);
  EXPECT_EQ(bytes, "Ġ中");
  EXPECT_FALSE(char_to_byte(U' '));
}

}  // namespace
}  // namespace litespark::token
