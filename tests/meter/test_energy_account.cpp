// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "meter/energy_account.h"

namespace litespark {
namespace {

EnergyInterval interval(double seconds, const std::optional<double>& cpu, double gpu) {
  return {
      .seconds = seconds,
      .devices = {
          {.device = "cpu",
           .part = EnergyPart::kCpu,
           .reading = {.joules = cpu, .method = cpu ? EnergyMethod::kEstimated : EnergyMethod::kUnavailable}},
          {.device = "gpu a", .part = EnergyPart::kGpu, .reading = {.joules = gpu, .method = EnergyMethod::kCounter}}}};
}

TEST(EnergyAccount, SumsDevicesAndTime) {
  EnergyAccount account;
  account.add(interval(2, 10, 100));
  account.add(interval(3, 20, 120));
  EXPECT_DOUBLE_EQ(account.joules, 250.0);
  EXPECT_DOUBLE_EQ(account.mean_watts().value(), 50.0);
  EXPECT_DOUBLE_EQ(account.devices.at("gpu a").joules, 220.0);
  EXPECT_DOUBLE_EQ(account.part_joules(EnergyPart::kCpu).value(), 30.0);
  EXPECT_FALSE(account.part_joules(EnergyPart::kRam).has_value());
  EXPECT_EQ(account.devices.at("gpu a").method, EnergyMethod::kCounter);
  EXPECT_EQ(account.overall_method(), EnergyMethod::kEstimated);
}

TEST(EnergyAccount, AGapIsTimeWithoutAFigure) {  // fault:F1
  EnergyAccount account;
  account.add(interval(2, 10, 90));
  account.add(interval(8, std::nullopt, 90));
  EXPECT_DOUBLE_EQ(account.joules, 100.0);
  EXPECT_DOUBLE_EQ(account.unmetered_seconds, 8.0);
  EXPECT_DOUBLE_EQ(account.mean_watts().value(), 50.0);
}

TEST(EnergyAccount, NothingMeteredIsUnavailable) {  // fault:F1
  EnergyAccount account;
  account.add(interval(8, std::nullopt, 90));
  EXPECT_FALSE(account.is_known());
  EXPECT_FALSE(account.mean_watts().has_value());
  EXPECT_EQ(account.overall_method(), EnergyMethod::kUnavailable);
}

// A counter that moves once in a while: 100 J of a board in the third of three steps.
TEST(PowerWindow, ShowsTheMeanOfAWholeStretchWhenACounterMovesNowAndThen) {
  PowerWindow window;
  EXPECT_DOUBLE_EQ(window.add(interval(0.25, 5, 0)).value(), 20.0);
  EXPECT_DOUBLE_EQ(window.add(interval(0.25, 5, 0)).value(), 20.0);
  EXPECT_DOUBLE_EQ(window.add(interval(0.5, 10, 100)).value(), 120.0);
  EXPECT_DOUBLE_EQ(window.add(interval(0.25, 5, 0)).value(), 120.0);
  EXPECT_DOUBLE_EQ(window.add(interval(0.75, 15, 200)).value(), 220.0);
  EXPECT_DOUBLE_EQ(window.add(interval(2, 40, 360)).value(), 200.0);
}

TEST(PowerWindow, AGapIsNoFigureUntilAStretchIsWholeAgain) {  // fault:F1
  PowerWindow window;
  EXPECT_TRUE(window.add(interval(1, 20, 80)).has_value());
  EXPECT_FALSE(window.add(interval(0.5, std::nullopt, 40)).has_value());
  EXPECT_FALSE(window.add(interval(0.5, 10, 40)).has_value());
  EXPECT_DOUBLE_EQ(window.add(interval(1, 20, 80)).value(), 100.0);
}

}  // namespace
}  // namespace litespark
