// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "report/axis.h"

namespace litespark::report {
namespace {

TEST(Axis, TicksAreRoundNumbersInsideTheAxis) {
  const Axis axis = make_axis(3.6, 8.4, {.num_ticks = 5});
  ASSERT_EQ(axis.ticks.size(), 3U);
  EXPECT_EQ(axis.ticks[0].text, "4");
  EXPECT_EQ(axis.ticks[2].text, "8");
  EXPECT_LT(axis.low, 3.6);
  EXPECT_GT(axis.high, 8.4);
}

TEST(Axis, AllTicksStandInOneUnit) {
  const Axis axis = make_axis(0.0, 14000.0, {.starts_at_zero = true});
  ASSERT_GE(axis.ticks.size(), 3U);
  EXPECT_EQ(axis.ticks[0].text, "0");
  EXPECT_EQ(axis.ticks[1].text, "5k");
  EXPECT_EQ(axis.ticks[2].text, "10k");
}

TEST(Axis, StartsAtZeroOnlyWhenNothingLiesBelow) {
  EXPECT_EQ(make_axis(5.0, 6.0, {.starts_at_zero = true}).low, 0.0);
  EXPECT_LT(make_axis(-1.0, 6.0, {.starts_at_zero = true}).low, -1.0);
}

TEST(Axis, StepsHaveNoHalves) {
  const Axis axis = make_axis(1.0, 3.0, {.num_ticks = 7, .is_padded = false, .has_whole_ticks = true});
  ASSERT_EQ(axis.ticks.size(), 3U);
  EXPECT_EQ(axis.ticks[1].text, "2");
}

TEST(Axis, AnyFiniteRangeGivesAFiniteAxisWithPlacesInside) {
  for (const double low : {-1e300, -5.0, 0.0, 1e-300, 7.0, 1e17}) {
    for (const double width : {0.0, 1e-300, 1e-12, 1.0, 1e17, 1e300}) {
      const Axis axis = make_axis(low, low + width, {});
      ASSERT_LT(axis.low, axis.high) << low << " " << width;
      EXPECT_LE(axis.ticks.size(), 12U);
      EXPECT_TRUE(std::isfinite(axis.place_of(low)));
      EXPECT_GE(axis.place_of(low), 0.0);
      EXPECT_LE(axis.place_of(low + width), 1.0);
      for (const Tick& tick : axis.ticks) EXPECT_TRUE(std::isfinite(tick.value));
    }
  }
}

}  // namespace
}  // namespace litespark::report
