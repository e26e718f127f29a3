// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dist/rank_processes.h"
#include "launch_dist.h"
#include "support/error_text.h"

namespace litespark {
namespace {

test::RankProcesses launched(int ranks, const std::string& task) {
  return test::RankProcesses(
      {{"sh", "-c",
        std::string("exec ") + LITESPARK_LAUNCH_PROBE + " " + std::to_string(ranks) + " " + task + " 2>&1"}});
}

TEST(LaunchDist, RanksThatWereLaunchedMeetAndAddUp) {
  test::RankProcesses launcher = launched(3, "sum");
  ASSERT_TRUE(launcher.await_ends(60));
  EXPECT_EQ(launcher.exit_code(0), 0) << launcher.output(0);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(contains(launcher.output(0), std::to_string(rank) + ": sum 6"));
}

// fault:B12
TEST(LaunchDist, ARankOfAnotherConfigurationStopsTheJobWithTheDifference) {
  test::RankProcesses launcher = launched(2, "differ");
  ASSERT_TRUE(launcher.await_ends(60));
  EXPECT_EQ(launcher.exit_code(0), static_cast<int>(ExitCode::kConfig)) << launcher.output(0);
  EXPECT_TRUE(contains(launcher.output(0), "rank 1 is not set up like rank 0: optim.lr is 0.1, rank 0 has 0.2"));
}

}  // namespace
}  // namespace litespark
