// SPDX-License-Identifier: Apache-2.0
// The detection rate that docs/training-step.md gives: thousands of planted flips, counted and printed.
#include <gtest/gtest.h>

#include <iostream>

#include "support/slow_loops.h"
#include "train/flip_trials.h"

namespace litespark {
namespace {

TEST(CorruptionCheck, DetectionRateOfPlantedFlips) {  // fault:C4
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    const FlipCounts counts = run_flip_trials(compute, test::slow_loops(2000, 20000), 2026);
    std::cout << "{\"compute\": \"" << dtype_name(compute) << "\", \"planted\": " << counts.planted
              << ", \"reached_loss_or_gradient\": " << counts.effective << ", \"detected\": " << counts.detected
              << ", \"missed\": " << counts.missed << ", \"false_alarms\": " << counts.false_alarms << "}\n";
    EXPECT_EQ(counts.missed, 0);
    EXPECT_EQ(counts.false_alarms, 0);
    EXPECT_GT(counts.effective, 0);
  }
}

}  // namespace
}  // namespace litespark
