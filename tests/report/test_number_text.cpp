// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "report/number_text.h"

namespace litespark::report {
namespace {

TEST(NumberText, HasFewDigitsAndNoTrailingZeros) {
  EXPECT_EQ(number_text(0.1 + 0.2), "0.3");
  EXPECT_EQ(number_text(3.0), "3");
  EXPECT_EQ(number_text(-2.71828), "-2.718");
  EXPECT_EQ(number_text(0.0), "0");
  EXPECT_EQ(number_text(0.00003), "3e-5");
  EXPECT_EQ(number_text(1e-100), "1e-100");
}

TEST(NumberText, LargeNumbersHaveUnits) {
  EXPECT_EQ(number_text(9999.0), "9999");
  EXPECT_EQ(number_text(12500.0), "12.5k");
  EXPECT_EQ(number_text(5000.0, 4, 1e3), "5k");
  EXPECT_EQ(number_text(-1.5e6), "-1.5M");
  EXPECT_EQ(number_text(2e9), "2G");
  EXPECT_EQ(number_text(2e12), "2T");
  EXPECT_EQ(number_text(2e30), "2e30");
}

TEST(NumberText, WhatIsNoNumberIsSaidInWords) {
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "not a number");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-infinite");
}

TEST(NumberText, PlainNumbersReadBackAsTheSame) {
  EXPECT_EQ(number_plain(400.0), "400");
  EXPECT_EQ(std::stod(number_plain(0.1 + 0.2)), 0.1 + 0.2);
}

TEST(NumberText, DurationsGrowFromMillisecondsToHours) {
  EXPECT_EQ(duration_text(0.85), "850 ms");
  EXPECT_EQ(duration_text(12.34), "12.3 s");
  EXPECT_EQ(duration_text(250.0), "4 min 10 s");
  EXPECT_EQ(duration_text(7500.0), "2 h 05 min");
  EXPECT_EQ(duration_text(1e300), "1e300 s");
}

}  // namespace
}  // namespace litespark::report
