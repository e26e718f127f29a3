// SPDX-License-Identifier: Apache-2.0
// What a stopped rank does to ranks under mpirun, whether they send messages or write into each other's memory.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "rank_processes.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark::test {

/// The words that start so many ranks at a task, which meet in a folder.
using RankCommand =
    std::function<std::vector<std::string>(int size, const std::string& task, const std::string& folder)>;

inline size_t times(const std::string& output, const std::string& text) {
  size_t found = 0;
  for (size_t at = 0; (at = output.find(text, at)) != std::string::npos; ++at) ++found;
  return found;
}

/// The last of three ranks is stopped with several calls under way, and goes on once the others have failed: they name
/// it, and nothing is written to memory that was handed to a call.
inline void expect_late_messages_reach_no_memory(const RankCommand& mpirun) {
  const TemporaryFolder folder;
  RankProcesses job({mpirun(3, "under_way", folder.path().string())});
  ASSERT_TRUE(job.await_text(0, "step 5", 60));
  const std::map<int, int> processes = processes_of(job.output(0));
  ASSERT_EQ(processes.size(), 3u) << job.output(0);
  kill(processes.at(2), SIGSTOP);
  ASSERT_TRUE(job.await_text(0, "failed", 30)) << job.output(0);
  kill(processes.at(2), SIGCONT);
  ASSERT_TRUE(job.await_ends(60));
  EXPECT_EQ(job.exit_code(0), static_cast<int>(ExitCode::kPeerLost));
  EXPECT_TRUE(is_missed(job.output(0), 2)) << job.output(0);
  EXPECT_GE(named_step(job.output(0)), 5) << job.output(0);
  EXPECT_EQ(times(job.output(0), "memory: untouched"), 3u) << job.output(0);
  EXPECT_FALSE(contains(job.output(0), "written to")) << job.output(0);
}

}  // namespace litespark::test
