// SPDX-License-Identifier: Apache-2.0
// Names from hostile files cannot bring control characters or pages of text into a message.
#include <gtest/gtest.h>

#include "core/quote.h"

namespace litespark {
namespace {

TEST(Quote, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(quote("plain name"), "\"plain name\"");
  EXPECT_EQ(quote("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(quote("\x1b[31m\n\x7f"), R"("\x1b[31m\x0a\x7f")");
  EXPECT_EQ(quote(std::string_view("a\0b", 3)), R"("a\x00b")");
  EXPECT_EQ(quote("\xc3\xa9"), "\"\xc3\xa9\"");
  EXPECT_EQ(quote(""), "\"\"");
}

TEST(Quote, ShortensLongTexts) {
  EXPECT_EQ(quote(std::string(120, 'x')).size(), 122U);
  EXPECT_EQ(quote(std::string(1000000, 'x')).size(), 125U);
}

TEST(Quote, EscapesControlCharactersOfEightBits) {
  EXPECT_EQ(quote("a\xc2\x9b"
                  "1m\xc2\xa0z"),
            "\"a\\xc2\\x9b"
            "1m\xc2\xa0z\"");
  EXPECT_EQ(quote("\xc2"), "\"\xc2\"");
}

TEST(Quote, PlainTextStaysInItsLineAndWithoutQuotes) {
  EXPECT_EQ(plain_text("a\"b\\c gr\xc3\xbcn"), "a\"b\\c gr\xc3\xbcn");
  EXPECT_EQ(plain_text("a\n\x1b[31mb\x7f"), "a\\x0a\\x1b[31mb\\x7f");
}

TEST(Quote, PlainLinesKeepTheirEnds) {
  EXPECT_EQ(plain_lines("a\nb\r\x1b"), "a\nb\\x0d\\x1b");
}

}  // namespace
}  // namespace litespark
