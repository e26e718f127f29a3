// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "anatomy/measure.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark::anatomy {
namespace {

TEST(Measure, RunsOnceWithoutAClockAndAtLeastOnceWithOne) {
  const auto backend = make_cpu_backend({.threads = 1});
  int calls = 0;
  const Timing timing = time_runs(*backend, 0, [&] { ++calls; });
  EXPECT_EQ(timing.num_runs, calls - 1);
  EXPECT_GE(timing.num_runs, 1);
  EXPECT_LE(timing.best_seconds, timing.median_seconds);
}

TEST(Measure, TakesTheMiddleOfNumbers) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({5}), 5);
  EXPECT_EQ(median_of({}), 0);
}

}  // namespace
}  // namespace litespark::anatomy
