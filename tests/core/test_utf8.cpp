// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "core/utf8.h"

namespace litespark {
namespace {

TEST(Utf8, TakesCharactersOfEveryLengthUpToTheirBounds) {
  for (const char* text : {"", "a", "\x7f", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "a\xC3\xA9z"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(Utf8, RefusesLoneBytesLongFormsSurrogatesAndWhatIsCutOff) {
  for (const char* text : {"\x80", "\xFF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2z", "\xE0\x9F\xBF", "\xED\xA0\x80",
                           "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "a\xE2\x82z"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(Utf8, TakesEveryCodePointButSurrogates) {
  const auto encoded = [](uint32_t point) {
    std::string out;
    if (point < 0x80) return std::string(1, static_cast<char>(point));
    const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    out += static_cast<char>((0xF0u << (3 - more)) | (point >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((point >> (6 * i)) & 0x3F));
    return out;
  };
  for (uint32_t point = 0; point < 0x110000; ++point) {
    const bool is_surrogate = point >= 0xD800 && point < 0xE000;
    ASSERT_EQ(is_utf8(encoded(point)), !is_surrogate) << std::hex << point;
  }
}

}  // namespace
}  // namespace litespark
