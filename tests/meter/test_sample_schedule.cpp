// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "meter/sample_schedule.h"

namespace litespark {
namespace {

/// The observed steps among `steps` of one second each, where observing makes a step longer by `extra_seconds`.
std::vector<int64_t> observed(SampleSchedule& schedule, int64_t steps, double extra_seconds) {
  std::vector<int64_t> result;
  for (int64_t step = 1; step <= steps; ++step) {
    const bool is_due = schedule.is_due(step);
    if (is_due) result.push_back(step);
    schedule.took(is_due ? 1.0 + extra_seconds : 1.0, is_due);
  }
  return result;
}

TEST(SampleSchedule, TakesOneStepInSoMany) {
  SampleSchedule schedule({.every = 10});
  EXPECT_EQ(observed(schedule, 35, 0.0), (std::vector<int64_t>{5, 10, 20, 30}));
  EXPECT_EQ(schedule.cost_seconds(), 0.0);
}

TEST(SampleSchedule, TakesNoneWhenAskedForNone) {
  SampleSchedule schedule({.every = 0});
  EXPECT_TRUE(observed(schedule, 100, 0.0).empty());
}

TEST(SampleSchedule, DearSamplesBecomeRareSoThatTheCostStaysInItsShare) {
  SampleSchedule schedule({.every = 10, .most_share = 0.01});
  const std::vector<int64_t> steps = observed(schedule, 2000, 1.5);
  EXPECT_EQ(steps.size(), 13u);
  EXPECT_LE(schedule.cost_share(), 0.01);
  EXPECT_NEAR(schedule.cost_seconds(), 13 * 1.5, 1e-9);
}

TEST(SampleSchedule, TimeThatTheNextStepGivesBackIsNoCost) {
  SampleSchedule schedule({.every = 10});
  for (int64_t step = 1; step <= 20; ++step) {
    const bool is_due = schedule.is_due(step);
    const bool follows = step == 6 || step == 11;  // the device was drained by the sample: the next step comes early
    schedule.took(is_due ? 1.75 : follows ? 0.25 : 1.0, is_due);
  }
  EXPECT_EQ(schedule.cost_seconds(), 0.0);
}

}  // namespace
}  // namespace litespark
