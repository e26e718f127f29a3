// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "meter/cpu_model.h"

namespace litespark {
namespace {

constexpr CpuModel kMachine{
    .idle_watts = 10, .watts_per_busy_core = 5, .watts_per_gib = 0.5, .num_cores = 4, .memory_gib = 16};

TEST(CpuModel, AddsIdlePowerAndBusyCores) {
  std::optional<double> used = 100.0;
  const auto sensor = make_cpu_estimate(kMachine, [&] { return used; });
  sensor->read(50.0);
  used = 103.0;  // three core seconds in two seconds
  const EnergyReading reading = sensor->read(52.0);
  EXPECT_DOUBLE_EQ(reading.joules.value(), 2 * 10 + 3 * 5);
  EXPECT_EQ(reading.method, EnergyMethod::kEstimated);
}

TEST(CpuModel, NoMoreCoresAreBusyThanThereAre) {
  std::optional<double> used = 0.0;
  const auto sensor = make_cpu_estimate(kMachine, [&] { return used; });
  sensor->read(0.0);
  used = 100.0;
  EXPECT_DOUBLE_EQ(sensor->read(1.0).joules.value(), 10 + 4 * 5);
}

TEST(CpuModel, AMissingOrFallingCpuTimeIsUnknown) {  // fault:F1
  std::optional<double> used = 10.0;
  const auto sensor = make_cpu_estimate(kMachine, [&] { return used; });
  sensor->read(0.0);
  used = 9.0;
  EXPECT_EQ(sensor->read(1.0).joules, std::nullopt);
  used = std::nullopt;
  EXPECT_EQ(sensor->read(2.0).method, EnergyMethod::kUnavailable);
}

TEST(CpuModel, AClockThatRunsBackIsUnknown) {  // fault:F2
  const auto sensor = make_cpu_estimate(kMachine, [] { return std::optional(1.0); });
  sensor->read(10.0);
  EXPECT_EQ(sensor->read(9.0).joules, std::nullopt);
  EXPECT_EQ(sensor->read(10.0).joules, 10.0);
}

TEST(CpuModel, MemoryTakesItsWattsAllTheTime) {
  const auto sensor = make_memory_estimate(kMachine);
  sensor->read(10.0);
  const EnergyReading reading = sensor->read(13.0);
  EXPECT_DOUBLE_EQ(reading.joules.value(), 3 * 8.0);
  EXPECT_EQ(reading.method, EnergyMethod::kEstimated);
  EXPECT_EQ(sensor->part(), EnergyPart::kRam);
}

TEST(CpuModel, ThisMachineHasCoresAndMemory) {
  const CpuModel model = cpu_model_of_this_machine();
  EXPECT_GE(model.num_cores, 1);
  EXPECT_GT(model.memory_gib, 0.0);
  EXPECT_DOUBLE_EQ(model.idle_watts, kIdleWattsPerCore * model.num_cores);
  EXPECT_TRUE(process_cpu_seconds().has_value());
}

}  // namespace
}  // namespace litespark
