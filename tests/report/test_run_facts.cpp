// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "report/run_facts.h"

namespace litespark::report {
namespace {

TEST(RunFacts, ARunWithoutStepsHasNoFacts) {
  const RunFacts facts = run_facts({});
  EXPECT_EQ(facts.last_step, std::nullopt);
  EXPECT_EQ(facts.last_loss, std::nullopt);
  EXPECT_FALSE(facts.joules.is_measured());
}

TEST(RunFacts, TheLastLossIsThatOfTheLastStepThatHasOne) {
  RunFolder run;
  run.steps = {{.step = 1, .loss = 8.0}, {.step = 2, .loss = 7.0}, {.step = 3, .skipped = true}};
  run.evals = {{.step = 1, .loss = 5.0}, {.step = 2, .loss = 6.0}, {.step = 3}};
  const RunFacts facts = run_facts(run);
  EXPECT_EQ(facts.last_step, 3);
  EXPECT_EQ(facts.last_loss, 7.0);
  EXPECT_EQ(facts.last_eval_loss, 6.0);
  EXPECT_EQ(facts.best_eval_loss, 5.0);
  EXPECT_EQ(facts.num_skipped, 1);
}

TEST(RunFacts, ASumOfSomeStepsSaysSo) {  // fault:F1
  RunFolder run;
  run.steps = {{.step = 1, .joules = 5.0}, {.step = 2}, {.step = 3, .joules = 7.0}};
  const PartialSum joules = run_facts(run).joules;
  EXPECT_EQ(joules.sum, 12.0);
  EXPECT_TRUE(joules.is_measured());
  EXPECT_FALSE(joules.is_whole());
  EXPECT_FALSE(run_facts(run).co2_grams.is_measured());
}

TEST(RunFacts, DevicesAreKeptApartByMethodAndUnknownIntervalsCountNoTime) {
  RunFolder run;
  run.energy = {{.device = "cpu", .method = "estimated", .seconds = 2.0, .joules = 80.0},
                {.device = "gpu", .method = "counter", .seconds = 2.0, .joules = 600.0},
                {.device = "cpu", .method = "estimated", .seconds = 9.0},
                {.device = "gpu", .method = "unavailable", .seconds = 1.0}};
  const RunFacts facts = run_facts(run);
  ASSERT_EQ(facts.devices.size(), 3U);
  EXPECT_EQ(facts.devices[0].mean_watts(), 40.0);
  EXPECT_EQ(facts.devices[0].joules.num_all, 2);
  EXPECT_FALSE(facts.devices[0].joules.is_whole());
  EXPECT_EQ(facts.devices[2].mean_watts(), std::nullopt);
  EXPECT_TRUE(facts.is_energy_estimated);
}

TEST(RunFacts, TheRunsEnergyIsTheDevicesWhichCountTheLastSaveToo) {
  RunFolder run;
  run.steps = {{.step = 1, .joules = 40.0, .co2_grams = 1.0}, {.step = 2, .joules = 60.0, .co2_grams = 2.0}};
  run.energy = {{.device = "cpu", .method = "estimated", .seconds = 2.0, .joules = 80.0},
                {.device = "memory", .method = "estimated", .seconds = 2.0, .joules = 20.0},
                {.device = "cpu", .method = "estimated", .seconds = 1.0, .joules = 10.0}};
  const RunFacts facts = run_facts(run);
  EXPECT_EQ(facts.step_joules.sum, 100.0);
  EXPECT_EQ(facts.joules.sum, 110.0);
  EXPECT_TRUE(facts.joules.is_whole());
  EXPECT_DOUBLE_EQ(facts.co2_grams.sum, 3.3);
  run.energy.resize(1);  // a run that goes on: its last steps are not in the devices' records yet
  EXPECT_EQ(run_facts(run).joules.sum, 100.0);
  EXPECT_EQ(run_facts(run).co2_grams.sum, 3.0);
}

TEST(RunFacts, TheMedianIsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({}), std::nullopt);
  EXPECT_EQ(median({3.0, 1.0, 2.0}), 2.0);
  EXPECT_EQ(median({4.0, 1.0, 3.0, 2.0}), 2.5);
}

}  // namespace
}  // namespace litespark::report
