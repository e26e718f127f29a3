// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <map>

#include "core/error.h"
#include "dist/mpi/mpi_communicator.h"
#include "rank_processes.h"
#include "stopped_rank.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

using test::RankProcesses;

std::vector<std::string> mpirun(int size, const std::string& task, const std::string& folder = "") {
  return {"mpirun", "--allow-run-as-root", "--oversubscribe",  "--bind-to", "none", "--mca", "btl", "self,vader,tcp",
          "-np",    std::to_string(size),  LITESPARK_MPI_RANK, task,        folder};
}

class MpiConformance : public testing::TestWithParam<int> {};

TEST_P(MpiConformance, RanksDoWhatEveryCallSays) {
  RankProcesses job({mpirun(GetParam(), "conformance")});
  ASSERT_TRUE(job.await_ends(180));
  EXPECT_EQ(job.exit_code(0), 0) << job.output(0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, MpiConformance, testing::Values(1, 2, 3, 4), testing::PrintToStringParamName());

TEST(MpiCommunicator, RanksEndEveryFaultInAnErrorThatNamesIt) {
  RankProcesses job({mpirun(3, "faults")});
  ASSERT_TRUE(job.await_ends(120));
  EXPECT_EQ(test::times(job.output(0), "all faults were found"), 3u) << job.output(0);
  EXPECT_EQ(job.exit_code(0), 0) << job.output(0);
}

// fault:B5
TEST(MpiCommunicator, AStoppedRankEndsTheOthersAtTheDeadlineWhoNameIt) {
  RankProcesses job({mpirun(3, "endless")});
  ASSERT_TRUE(job.await_lines(0, 3, 60));
  const std::map<int, int> processes = test::processes_of(job.output(0));
  ASSERT_EQ(processes.size(), 3u) << job.output(0);
  kill(processes.at(2), SIGSTOP);
  ASSERT_TRUE(job.await_ends(60));  // mpirun ends the stopped one when the others have failed
  EXPECT_EQ(job.exit_code(0), static_cast<int>(ExitCode::kPeerLost));
  EXPECT_TRUE(test::is_missed(job.output(0), 2)) << job.output(0);
}

// fault:B4
TEST(MpiCommunicator, AKilledRankEndsTheJob) {
  RankProcesses job({mpirun(3, "endless")});
  ASSERT_TRUE(job.await_lines(0, 3, 60));
  const std::map<int, int> processes = test::processes_of(job.output(0));
  ASSERT_EQ(processes.size(), 3u) << job.output(0);
  kill(processes.at(1), SIGKILL);
  ASSERT_TRUE(job.await_ends(60));
  EXPECT_NE(job.exit_code(0), 0);
}

// fault:B5
TEST(MpiCommunicator, AStoppedRankEndsAllCallsUnderWayAndItsLateMessagesReachNoMemory) {
  test::expect_late_messages_reach_no_memory(mpirun);
}

// fault:B4
TEST(MpiCommunicator, AKilledRankEndsTheJobWithSeveralCallsUnderWay) {
  const test::TemporaryFolder folder;
  RankProcesses job({mpirun(3, "under_way", folder.path().string())});
  ASSERT_TRUE(job.await_text(0, "step 5", 60));
  const std::map<int, int> processes = test::processes_of(job.output(0));
  ASSERT_EQ(processes.size(), 3u) << job.output(0);
  kill(processes.at(1), SIGKILL);
  ASSERT_TRUE(job.await_ends(60));
  EXPECT_NE(job.exit_code(0), 0);
}

}  // namespace
}  // namespace litespark
