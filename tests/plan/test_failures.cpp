// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "plan/failures.h"

namespace litespark {
namespace {

TEST(Failures, SavesComeAtTheIntervalThatCostsLeast) {
  FailureModel model;
  model.gpus = 16384;
  const double best = best_save_interval_seconds(model);
  EXPECT_NEAR(best, std::sqrt(2 * 60 * 3600 * 50000.0 / 16384), 1e-6);
  EXPECT_LT(*failure_stretch(model, best), *failure_stretch(model, best / 3));
  EXPECT_LT(*failure_stretch(model, best), *failure_stretch(model, best * 3));
  EXPECT_THROW((void)failure_stretch(model, 0), ConfigError);
  model.device_mtbf_hours = 1;
  EXPECT_FALSE(failure_stretch(model, 100).has_value());
}

FailureModel large_job() {
  FailureModel model;
  model.gpus = 16384;
  return model;
}

TEST(Failures, RunsPlayedOutTakeWhatTheClosedFormSaysInTheMean) {
  const FailureModel model = large_job();
  const double interval = best_save_interval_seconds(model);
  const double useful = 30.0 * 86400;
  double wall = 0;
  constexpr int kRuns = 40;
  for (uint64_t seed = 0; seed < kRuns; ++seed) wall += replay_failures(model, useful, interval, seed)->wall_seconds;
  EXPECT_NEAR(wall / kRuns / useful, *failure_stretch(model, interval), 0.01);
}

TEST(Failures, ARunAddsUpFromItsParts) {
  const FailureModel model = large_job();
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const FailureReplay run = *replay_failures(model, 1e6, 900, seed);
    EXPECT_GT(run.num_failures, 10);
    const double parts = 1e6 + run.redone_seconds + static_cast<double>(run.num_failures) * model.restart_seconds;
    EXPECT_GE(run.wall_seconds, parts + run.save_seconds - 1e-6);
    // What is left are saves that a failure cut off.
    EXPECT_LE(run.wall_seconds,
              parts + run.save_seconds + static_cast<double>(run.num_failures) * model.save_seconds + 1e-6);
  }
}

TEST(Failures, TheSameSeedGivesTheSameRunAndAnotherGivesAnother) {
  const FailureModel model = large_job();
  EXPECT_EQ(replay_failures(model, 1e6, 900, 3)->wall_seconds, replay_failures(model, 1e6, 900, 3)->wall_seconds);
  EXPECT_NE(replay_failures(model, 1e6, 900, 3)->wall_seconds, replay_failures(model, 1e6, 900, 4)->wall_seconds);
}

TEST(Failures, WithoutFailuresThereAreOnlySavesAndNoneBehindTheLastStep) {
  FailureModel model;
  model.device_mtbf_hours = 1e15;
  const FailureReplay run = *replay_failures(model, 1000, 100, 1);
  EXPECT_EQ(run.num_failures, 0);
  EXPECT_DOUBLE_EQ(run.wall_seconds, 1000 + 9 * model.save_seconds);
  EXPECT_DOUBLE_EQ(replay_failures(model, 1000, 5000, 1)->wall_seconds, 1000);
}

TEST(Failures, ARunThatNeverEndsIsNoNumber) {
  FailureModel model;
  model.device_mtbf_hours = 0.01;
  EXPECT_FALSE(replay_failures(model, 1e6, 1e6, 1).has_value());
  EXPECT_THROW((void)replay_failures(model, 1, 0, 1), ConfigError);
}

}  // namespace
}  // namespace litespark
