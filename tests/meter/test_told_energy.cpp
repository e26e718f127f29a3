// SPDX-License-Identifier: Apache-2.0
// What others told belongs to one interval, once, and what they do not know is unknown.
#include <gtest/gtest.h>

#include <limits>

#include "meter/told_energy.h"

namespace litespark {
namespace {

TEST(ToldEnergy, BelongsToTheIntervalInWhichItWasToldAndToNoOther) {
  ToldEnergy others("other ranks", EnergyPart::kGpu, EnergyMethod::kCounter);
  EXPECT_EQ(others.read(0).joules, 0.0);
  others.add(2.5);
  others.add(0.5);
  const EnergyReading reading = others.read(1);
  EXPECT_EQ(reading.joules, 3.0);
  EXPECT_EQ(reading.method, EnergyMethod::kCounter);
  EXPECT_EQ(others.read(2).joules, 0.0);
}

TEST(ToldEnergy, AnUnknownShareMakesTheIntervalUnknownAndNotTheNext) {
  ToldEnergy others("other ranks", EnergyPart::kGpu, EnergyMethod::kCounter);
  others.add(2.5);
  others.add(std::numeric_limits<double>::quiet_NaN());
  const EnergyReading reading = others.read(1);
  EXPECT_FALSE(reading.joules);
  EXPECT_EQ(reading.method, EnergyMethod::kUnavailable);
  others.add(1.0);
  EXPECT_EQ(others.read(2).joules, 1.0);
}

}  // namespace
}  // namespace litespark
