// SPDX-License-Identifier: Apache-2.0
// Tables and numbers spelled out.
#include <gtest/gtest.h>

#include <limits>

#include "core/text_table.h"

namespace litespark {
namespace {

TEST(TextTable, AlignsTheFirstColumnLeftAndTheOthersRight) {
  TextTable table({"owner", "MiB", "x"});
  table.add({"weights", "1.0", "22"});
  table.add_rule();
  table.add({"gr\xc3\xbcn", "10.5"});
  EXPECT_EQ(table.to_string("  "),
            "  owner     MiB   x\n"
            "  -----------------\n"
            "  weights   1.0  22\n"
            "  -----------------\n"
            "  gr\xc3\xbcn     10.5\n");
}

TEST(TextTable, BytesTakeTheLargestFittingUnit) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(int64_t{5} << 20), "5.0 MiB");
  EXPECT_EQ(bytes_text((int64_t{3} << 30) / 2), "1.50 GiB");
  EXPECT_EQ(bytes_text(int64_t{1} << 52), "4096.00 TiB");
}

TEST(TextTable, ANumberThatIsNoneHasNoSign) {
  EXPECT_EQ(fixed_text(-std::numeric_limits<double>::quiet_NaN(), 3), "nan");
}

TEST(TextTable, ShortTextHasTwoFigures) {
  EXPECT_EQ(short_text(0.0000123), "1.2e-05");
  EXPECT_EQ(short_text(2.04), "2");
  EXPECT_EQ(short_text(0.15), "0.15");
}

TEST(TextTable, CountsTakeLetters) {
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1500), "1.5 k");
  EXPECT_EQ(count_text(5820000), "5.82 M");
  EXPECT_EQ(count_text(1240000000), "1.24 B");
}

TEST(TextTable, CellsCannotSteerATerminalOrEndTheirLine) {
  TextTable table({"a", "b"});
  table.add({"x\ny", "\x1b[2J"});
  EXPECT_EQ(table.to_string(), "a             b\n---------------\nx\\x0ay  \\x1b[2J\n");
}

}  // namespace
}  // namespace litespark
