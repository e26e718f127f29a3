// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "plan/row_text.h"

namespace litespark {
namespace {

TEST(RowText, ANumberStandsBeforeItsUnit) {
  EXPECT_EQ(number_before("h100-96gb hbm2e 2.4 tb/s, 500 w cap", "tb/s"), 2.4);
  EXPECT_EQ(number_before("h100-96gb hbm2e 2.4 tb/s, 500 w cap", "w cap"), 500);
  EXPECT_EQ(number_before("h100-96gb", "gb"), 96);
  EXPECT_EQ(number_before("no number gb, 80gb", "gb"), 80);
  EXPECT_FALSE(number_before("tb/s", "tb/s"));
}

TEST(RowText, ANumberStandsAfterItsNameAndNotInsideAnotherWord) {
  EXPECT_EQ(number_after("ga=32; cp=2; x", "cp="), 2);
  EXPECT_EQ(number_after("wcp=7; cp=4.", "cp="), 4);
  EXPECT_FALSE(number_after("cp=", "cp="));
}

TEST(RowText, AWholeTextIsANumberOrNothing) {
  EXPECT_EQ(whole_number_text(" 12.5 "), 12.5);
  for (const char* text : {"", "12x", "nan", "inf", "1e999", "--3"}) EXPECT_FALSE(whole_number_text(text)) << text;
}

TEST(RowText, TheYearIsReadFromPreprintsDatesAndNames) {
  EXPECT_EQ(year_in_text("Korthikanti 2022 arXiv:2205.05198 table 5"), 2022);
  EXPECT_EQ(year_in_text("arXiv:2104.04473"), 2021);
  EXPECT_EQ(year_in_text("llama3_h100_202412_torchtitan.md"), 2024);
  EXPECT_FALSE(year_in_text("v25.04, port 8080, 12345 rows"));
}

}  // namespace
}  // namespace litespark
