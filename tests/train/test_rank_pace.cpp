// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "train/rank_pace.h"

namespace litespark {
namespace {

TEST(RankPace, NamesTheSlowestAndTakesTheMedian) {
  const RankPace pace = pace_of(std::vector<double>{0.2, 0.9, 0.1, 0.3, 0.25});
  EXPECT_EQ(pace.slowest_rank, 1);
  EXPECT_EQ(pace.slowest_seconds, 0.9);
  EXPECT_EQ(pace.median_seconds, 0.25);
  EXPECT_EQ(pace_of(std::vector<double>{0.5, 0.25}).median_seconds, 0.25);
}

TEST(SlowRankWatch, NamesRankHostAndFactorAfterSeveralStepsInARow) {  // fault:B6
  SlowRankWatch watch({"a", "b", "b"});
  const std::vector<double> slow = {1, 1.1, 2.5};
  for (int64_t step = 1; step < kSlowSteps; ++step) EXPECT_TRUE(watch.see(slow).empty());
  const auto warnings = watch.see(slow);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("rank 2 on b is slow: 2.3 times"), std::string::npos) << warnings[0];
  EXPECT_TRUE(watch.see(slow).empty()) << "said once";
}

TEST(SlowRankWatch, AStepInWhichItKeptUpBeginsTheCountAnew) {
  SlowRankWatch watch({"a", "b"});
  int warned = 0;
  for (int step = 0; step < 4 * kSlowSteps; ++step) {
    warned += static_cast<int>(watch.see(std::vector<double>{1.0, step % kSlowSteps == 0 ? 1.2 : 2.0}).size());
  }
  EXPECT_EQ(warned, 0);
}

TEST(SlowRankWatch, SeveralSlowRanksAreNamedWhicheverIsTheSlowest) {
  SlowRankWatch watch({"a", "b", "c", "d", "e"});
  std::vector<std::string> warnings;
  for (int64_t step = 0; step < kSlowSteps; ++step) {
    warnings = watch.see(std::vector<double>{1, 1, 1, step % 2 == 0 ? 2.0 : 3.0, step % 2 == 0 ? 3.0 : 2.0});
  }
  EXPECT_EQ(warnings.size(), 2U);
}

TEST(SlowRankWatch, SaysNothingOfWhatIsUnknown) {
  SlowRankWatch watch({"a", "b"});
  for (int64_t step = 0; step < 2 * kSlowSteps; ++step) EXPECT_TRUE(watch.see({}).empty());
}

}  // namespace
}  // namespace litespark
