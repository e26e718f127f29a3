// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "dist/rank_processes.h"
#include "launch.h"
#include "support/error_text.h"

namespace litespark {
namespace {

using test::RankProcesses;

std::vector<std::string> command(int ranks, const std::string& task) {
  // Standard error beside standard output, so that a test sees both.
  return {"sh", "-c",
          std::string("exec ") + LITESPARK_LAUNCH_PROBE + " " + std::to_string(ranks) + " " + task + " 2>&1"};
}

std::string sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  std::string sorted;
  for (const std::string& line : lines) sorted += line + "\n";
  return sorted;
}

/// Gone, or a zombie: with its parent dead, reaping it is init's matter.
bool has_ended(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t close = text.rfind(')');
  return close == std::string::npos || text.substr(close + 2, 1) == "Z";
}

TEST(Launch, StartsOneProcessARankWithADeviceAndPrefixesItsLines) {
  RankProcesses launcher({command(2, "hello")});
  ASSERT_TRUE(launcher.await_ends(30));
  EXPECT_EQ(launcher.exit_code(0), 0);
  EXPECT_EQ(sorted_lines(launcher.output(0)),
            "0: aside\n0: hello 0 of 2, device 0\n0: no end of line\n"
            "1: aside\n1: hello 1 of 2, device 1\n1: no end of line\n");
}

TEST(Launch, DevicesAreTakenFromThoseThatTheUserLeftVisible) {
  setenv("CUDA_VISIBLE_DEVICES", "GPU-b,5", 1);
  RankProcesses launcher({command(2, "hello")});
  RankProcesses too_many({command(3, "hello")});
  unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_TRUE(launcher.await_ends(30));
  ASSERT_TRUE(too_many.await_ends(30));
  EXPECT_TRUE(contains(launcher.output(0), "0: hello 0 of 2, device GPU-b\n"));
  EXPECT_TRUE(contains(launcher.output(0), "1: hello 1 of 2, device 5\n"));
  EXPECT_EQ(too_many.exit_code(0), static_cast<int>(ExitCode::kConfig));
  EXPECT_TRUE(contains(too_many.output(0), "[CUDA_VISIBLE_DEVICES] names too few devices"));
}

TEST(Launch, EndsAsTheRankThatFailedFirstAndEndsTheOthers) {
  RankProcesses launcher({command(3, "second_fails")});
  ASSERT_TRUE(launcher.await_ends(30));
  EXPECT_EQ(launcher.exit_code(0), static_cast<int>(ExitCode::kInputFile));
}

// fault:B4
TEST(Launch, AKilledRankIsALostPeer) {
  RankProcesses launcher({command(3, "second_dies")});
  ASSERT_TRUE(launcher.await_ends(30));
  EXPECT_EQ(launcher.exit_code(0), static_cast<int>(ExitCode::kPeerLost));
}

// fault:B3
TEST(Launch, PassesASignalOnAndWaitsForEveryRankToSave) {
  RankProcesses launcher({command(2, "stop")});
  ASSERT_TRUE(launcher.await_lines(0, 2, 30));
  launcher.send_signal(0, SIGTERM);
  ASSERT_TRUE(launcher.await_ends(30));
  EXPECT_EQ(launcher.exit_code(0), static_cast<int>(ExitCode::kStopped));
  EXPECT_TRUE(contains(launcher.output(0), "0: saved"));
  EXPECT_TRUE(contains(launcher.output(0), "1: saved"));
}

TEST(Launch, RanksDoNotOutliveAKilledLauncher) {
  RankProcesses launcher({command(2, "linger")});
  ASSERT_TRUE(launcher.await_lines(0, 2, 30));
  std::vector<int> ranks;
  std::istringstream stream(launcher.output(0));
  for (std::string line; std::getline(stream, line);) ranks.push_back(std::atoi(line.c_str() + 3));
  launcher.send_signal(0, SIGKILL);
  ASSERT_TRUE(launcher.await_ends(30));
  for (const int rank : ranks) {
    ASSERT_GT(rank, 1);
    bool is_gone = false;
    for (int round = 0; round < 1000 && !is_gone; ++round) {
      is_gone = has_ended(rank);
      if (!is_gone) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(is_gone) << rank;
  }
}

TEST(Launch, RanksThatDoNotListenYetEndBySignalsThatArePassedOn) {
  for (const auto& [number, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}}) {
    RankProcesses launcher({command(2, "linger")});
    ASSERT_TRUE(launcher.await_lines(0, 2, 30));
    launcher.send_signal(0, number);
    ASSERT_TRUE(launcher.await_ends(30));
    EXPECT_EQ(launcher.exit_code(0), static_cast<int>(ExitCode::kStopped));
    EXPECT_TRUE(contains(launcher.output(0), std::string("litespark: stopped by ") + name +
                                                 " while no step was under way: there was nothing to save\n"));
  }
}

TEST(Launch, ARankThatIsKilledWhileAllStopIsALostPeer) {
  RankProcesses launcher({command(2, "stop_and_die")});
  ASSERT_TRUE(launcher.await_lines(0, 2, 30));
  launcher.send_signal(0, SIGTERM);
  ASSERT_TRUE(launcher.await_ends(30));
  EXPECT_EQ(launcher.exit_code(0), static_cast<int>(ExitCode::kPeerLost));
}

TEST(Launch, ARankThatLosesOneThatStoppedAsToldWasStoppedToo) {
  RankProcesses launcher({command(2, "stop_and_lose")});
  ASSERT_TRUE(launcher.await_lines(0, 2, 30));
  launcher.send_signal(0, SIGTERM);
  ASSERT_TRUE(launcher.await_ends(30));
  EXPECT_EQ(launcher.exit_code(0), static_cast<int>(ExitCode::kStopped));
}

}  // namespace
}  // namespace litespark
