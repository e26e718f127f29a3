// SPDX-License-Identifier: Apache-2.0
// Ranks under mpirun that write into each other's memory.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>

#include "core/error.h"
#include "dist/mpi/window_link.h"
#include "rank_processes.h"
#include "stopped_rank.h"
#include "support/error_text.h"

namespace litespark {
namespace {

using test::RankProcesses;

std::vector<std::string> mpirun(int size, const std::string& task, const std::string& folder = "") {
  return {"mpirun", "--allow-run-as-root", "--oversubscribe",  "--bind-to", "none", "--mca", "btl", "self,vader,tcp",
          "-np",    std::to_string(size),  LITESPARK_MPI_RANK, "windows",   task,   folder};
}

TEST(WindowLink, RanksDoWhatEveryCallSays) {
  for (const int size : {2, 3}) {
    RankProcesses job({mpirun(size, "conformance")});
    ASSERT_TRUE(job.await_ends(180));
    EXPECT_EQ(job.exit_code(0), 0) << job.output(0);
  }
}

TEST(WindowLink, RanksEndEveryFaultInAnErrorThatNamesIt) {
  RankProcesses job({mpirun(3, "faults")});
  ASSERT_TRUE(job.await_ends(120));
  EXPECT_TRUE(contains(job.output(0), "all faults were found"));
  EXPECT_EQ(job.exit_code(0), 0) << job.output(0);
}

// fault:B5
TEST(WindowLink, AStoppedRankEndsTheOthersAtTheDeadlineWhoNameIt) {
  RankProcesses job({mpirun(3, "endless")});
  ASSERT_TRUE(job.await_lines(0, 3, 60));
  const std::map<int, int> processes = test::processes_of(job.output(0));
  ASSERT_EQ(processes.size(), 3u) << job.output(0);
  kill(processes.at(2), SIGSTOP);
  ASSERT_TRUE(job.await_ends(60));
  EXPECT_EQ(job.exit_code(0), static_cast<int>(ExitCode::kPeerLost));
  EXPECT_TRUE(test::is_missed(job.output(0), 2)) << job.output(0);
}

// fault:B5
TEST(WindowLink, AStoppedRankEndsAllCallsUnderWayAndItsLateMessagesReachNoMemory) {
  test::expect_late_messages_reach_no_memory(mpirun);
}

}  // namespace
}  // namespace litespark
