// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "optim/schedule.h"

namespace litespark {
namespace {

TEST(Schedule, WarmsUpLinearlyToThePeak) {
  const Schedule schedule{.peak = 1.0, .warmup_steps = 4, .total_steps = 10};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1.0);
}

TEST(Schedule, EveryDecayEndsWhereItSays) {
  for (const Decay decay : {Decay::kCosine, Decay::kLinear, Decay::kWsd}) {
    const Schedule schedule{.decay = decay, .peak = 2.0, .warmup_steps = 10, .total_steps = 110, .final_fraction = 0.1};
    EXPECT_DOUBLE_EQ(schedule.at(10), 2.0);
    EXPECT_NEAR(schedule.at(110), 0.2, 1e-12);
    EXPECT_NEAR(schedule.at(100000), 0.2, 1e-12);  // report:B6: past the end the last value stays
    for (int64_t step = 10; step < 120; ++step) EXPECT_LE(schedule.at(step + 1), schedule.at(step) + 1e-12);
  }
}

TEST(Schedule, CosineAndLinearAreHalfWayInTheMiddle) {
  const Schedule cosine{.decay = Decay::kCosine, .peak = 1.0, .total_steps = 100, .final_fraction = 0.0};
  EXPECT_NEAR(cosine.at(50), 0.5, 1e-12);
  EXPECT_NEAR(cosine.at(25), 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  const Schedule linear{.decay = Decay::kLinear, .peak = 1.0, .total_steps = 100, .final_fraction = 0.2};
  EXPECT_NEAR(linear.at(50), 0.6, 1e-12);
}

TEST(Schedule, WsdIsFlatUntilItsLastPart) {
  const Schedule wsd{
      .decay = Decay::kWsd, .peak = 1.0, .total_steps = 100, .final_fraction = 0.0, .decay_fraction = 0.2};
  EXPECT_DOUBLE_EQ(wsd.at(79), 1.0);
  EXPECT_NEAR(wsd.at(85), 0.5, 1e-12);  // 1 - sqrt(1/4)
}

TEST(Schedule, InverseSqrtHalvesAtFourTimesTheWarmup) {
  const Schedule schedule{.decay = Decay::kInverseSqrt, .peak = 1.0, .warmup_steps = 100, .total_steps = 1000};
  EXPECT_NEAR(schedule.at(400), 0.5, 1e-12);
}

TEST(Schedule, RefusesImpossibleSettingsByName) {
  EXPECT_THROW((Schedule{.peak = 0}.validate()), ConfigError);
  EXPECT_THROW((Schedule{.warmup_steps = 20, .total_steps = 10}.validate()), ConfigError);
  EXPECT_THROW((Schedule{.final_fraction = 1.5}.validate()), ConfigError);
  EXPECT_THROW((Schedule{.decay = Decay::kWsd, .decay_fraction = 0}.validate()), ConfigError);
  EXPECT_THROW(parse_decay("cos"), ConfigError);
}

}  // namespace
}  // namespace litespark
