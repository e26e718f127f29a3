// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string_view>

#include "core/hex_text.h"

namespace litespark {
namespace {

TEST(HexText, GivesTwoDigitsAByteAndAllDigitsOfAWord) {
  const std::string_view bytes("\x00\x7f\xa5\xff", 4);
  EXPECT_EQ(hex_text(std::as_bytes(std::span(bytes))), "007fa5ff");
  EXPECT_EQ(hex_text(std::span<const std::byte>()), "");
  EXPECT_EQ(hex_text(uint64_t{0x0123456789abcdef}), "0123456789abcdef");
  EXPECT_EQ(hex_text(uint64_t{0}), "0000000000000000");
}

}  // namespace
}  // namespace litespark
