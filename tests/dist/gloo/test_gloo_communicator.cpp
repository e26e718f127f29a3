// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "core/error.h"
#include "dist/gloo/gloo_communicator.h"
#include "rank_processes.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

using test::RankProcesses;

/// `size` ranks of one job, each a process.
class Job {
 public:
  Job(int size, const std::string& task) : processes_(commands(size, task)) {}
  RankProcesses* operator->() { return &processes_; }
  std::string fault_of(int rank) const { return test::fault_of_failed_rank(processes_, rank); }

 private:
  std::vector<std::vector<std::string>> commands(int size, const std::string& task) {
    const std::string secret = (folder_.path() / "secret").string();
    std::ofstream(secret) << std::string(32, 'k');
    chmod(secret.c_str(), 0600);
    const std::string address = "127.0.0.1:" + std::to_string(test::free_port());
    std::vector<std::vector<std::string>> result;
    for (int rank = 0; rank < size; ++rank)
      result.push_back(
          {LITESPARK_RANK_PROCESS, "gloo", std::to_string(rank), std::to_string(size), address, secret, task});
    return result;
  }

  test::TemporaryFolder folder_;
  RankProcesses processes_;
};

class GlooConformance : public testing::TestWithParam<int> {};

TEST_P(GlooConformance, ProcessesDoWhatEveryCallSays) {
  Job job(GetParam(), "conformance");
  ASSERT_TRUE(job->await_ends(120));
  for (int rank = 0; rank < GetParam(); ++rank) EXPECT_EQ(job->exit_code(rank), 0) << job->output(rank);
}

// fault:B5
TEST_P(GlooConformance, ProcessesEndEveryFaultInAnErrorThatNamesIt) {
  if (GetParam() == 1) return;
  Job job(GetParam(), "faults");
  ASSERT_TRUE(job->await_ends(120));
  for (int rank = 0; rank < GetParam(); ++rank) EXPECT_EQ(job->exit_code(rank), 0) << job->output(rank);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GlooConformance, testing::Values(1, 2, 3, 4), testing::PrintToStringParamName());

// fault:B4
TEST(GlooCommunicator, AKilledRankEndsTheOthersAndIsNamed) {
  Job job(3, "endless");
  ASSERT_TRUE(job->await_lines(1, 5, 60));
  job->send_signal(1, SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(job->await_ends(30));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(job->exit_code(1), 128 + SIGKILL);
  // Whoever hears of it second may hear of the first one's leaving before the reason for it.
  int num_who_name_it = 0;
  for (const int rank : {0, 2}) {
    EXPECT_EQ(job->exit_code(rank), static_cast<int>(ExitCode::kPeerLost));
    EXPECT_TRUE(contains(job->output(rank), " is lost"));
    EXPECT_TRUE(contains(job->output(rank), "all_reduce (max) of f32 [1048576]"));
    num_who_name_it += contains(job->output(rank), "rank 1 is lost") ? 1 : 0;
  }
  EXPECT_GE(num_who_name_it, 1);
}

// fault:B5
TEST(GlooCommunicator, AStoppedRankEndsTheOthersAtTheDeadlineAndLaterItself) {
  Job job(3, "endless");
  ASSERT_TRUE(job->await_lines(2, 5, 60));
  job->send_signal(2, SIGSTOP);
  ASSERT_TRUE(job->await_ends(30, 2));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(job->exit_code(rank), static_cast<int>(ExitCode::kPeerLost));
    EXPECT_TRUE(test::is_missed(job->output(rank), 2)) << job->output(rank);
  }
  job->send_signal(2, SIGCONT);
  ASSERT_TRUE(job->await_ends(30));
  EXPECT_EQ(job->exit_code(2), static_cast<int>(ExitCode::kPeerLost)) << job->output(2);
}

// fault:B4
TEST(GlooCommunicator, AKilledRankEndsAllCallsUnderWayAndEverySurvivorNamesIt) {
  for (const int num_steps : {1, 4}) {
    Job job(3, "under_way");
    ASSERT_TRUE(job->await_lines(1, num_steps, 60));
    job->send_signal(1, SIGKILL);
    ASSERT_TRUE(job->await_ends(30));
    for (const int rank : {0, 2}) {
      EXPECT_EQ(job.fault_of(rank), "");
      // At once, not by the deadline of a message that had begun.
      EXPECT_TRUE(contains(job->output(rank), "rank 1 is lost")) << job->output(rank);
      EXPECT_FALSE(contains(job->output(rank), "before the deadline")) << job->output(rank);
    }
  }
}

// fault:B5
TEST(GlooCommunicator, AStoppedRankEndsAllCallsUnderWayAndItsLateMessagesReachNoMemory) {
  Job job(3, "under_way");
  ASSERT_TRUE(job->await_lines(2, 3, 60));
  job->send_signal(2, SIGSTOP);
  for (const int rank : {0, 1}) ASSERT_TRUE(job->await_text(rank, "failed", 20)) << job->output(rank);
  job->send_signal(2, SIGCONT);
  ASSERT_TRUE(job->await_ends(30));
  for (const int rank : {0, 1, 2}) EXPECT_EQ(job.fault_of(rank), "");
  for (const int rank : {0, 1}) EXPECT_TRUE(test::is_missed(job->output(rank), 2)) << job->output(rank);
}

}  // namespace
}  // namespace litespark
