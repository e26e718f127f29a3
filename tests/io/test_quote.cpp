// SPDX-License-Identifier: Apache-2.0
// Names from hostile files cannot bring control characters or pages of text into a message.
#include <gtest/gtest.h>

#include "io/quote.h"

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

}  // namespace
}  // namespace litespark
