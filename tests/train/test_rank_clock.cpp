// SPDX-License-Identifier: Apache-2.0
// Ranks tell each other how long they work by themselves; one that is delayed stands out, though all end together.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "train/rank_clock.h"
#include "train/rank_runs.h"

namespace litespark {
namespace {

/// Sleeps in front of the first op of every forward.
class Sleeper final : public OpObserver {
 public:
  void before(const TapeEntry& entry) override {
    if (entry.scope == "forward.embedding") std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  void after(const TapeEntry&) override {}
};

TEST(RankClock, ADelayedRankIsTheSlowestOnAllRanksAndWaitsDoNotCount) {  // fault:B6
  RankedRun run;
  run.batches = twelve_batches();
  constexpr int kSteps = 8;
  std::array<std::vector<StepRecord>, 3> records;
  on_ranks(3, run, [&](TinyRun& mine) {
    const auto rank = static_cast<size_t>(mine.executor.program().options.data_rank);
    Sleeper sleeper;
    if (rank == 1) mine.executor.set_observer(&sleeper);
    for (int step = 0; step < kSteps; ++step) records[rank].push_back(mine.trainer.step_and_finish());
    mine.executor.set_observer(nullptr);
  });
  std::array<double, 3> totals{};
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<double>& seconds = records[0][static_cast<size_t>(step)].rank_seconds;
    EXPECT_EQ(seconds.size(), step < 2 ? 0U : 3U) << "two steps behind";
    EXPECT_EQ(records[2][static_cast<size_t>(step)].rank_seconds, seconds);
    for (size_t rank = 0; rank < seconds.size(); ++rank) totals[rank] += seconds[rank];
  }
  EXPECT_GT(totals[1], 2 * totals[0]);
  EXPECT_GT(totals[1], 2 * totals[2]);
  EXPECT_GT(totals[0], 0);
}

TEST(RankClock, KnowsNothingOfWaitsInRecordedGraphs) {
  RankedRun run;
  run.batches = twelve_batches();
  on_ranks(2, run, [&](TinyRun& mine) {
    mine.executor.set_records_communication(true);
    for (int step = 0; step < 4; ++step) EXPECT_TRUE(mine.trainer.step_and_finish().rank_seconds.empty());
  });
}

TEST(RankClock, OneRankIsNotTimed) {
  RankedRun run;
  run.batches = twelve_batches();
  for (const StepRecord& record : train_ranks(1, run, 4).records) EXPECT_TRUE(record.rank_seconds.empty());
}

}  // namespace
}  // namespace litespark
