// SPDX-License-Identifier: Apache-2.0
// Signals where there is no step that could be ended and saved: before the first one, and a second time.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "cli/launched_ranks.h"
#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

bool await(const std::function<bool()>& is_there) {
  for (int round = 0; round < 20000; ++round) {
    if (is_there()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// A line of /proc/PROCESS/status.
std::string status_line(pid_t process, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return {};
}

bool handles_interrupts(pid_t process) {
  const std::string caught = status_line(process, "SigCgt:\t");
  return !caught.empty() && (std::stoull(caught, nullptr, 16) & (1ULL << (SIGINT - 1))) != 0;
}

/// The first of two ranks, which waits for the other before it does anything.
std::unique_ptr<RunningLitespark> start_lonely_rank(const SmallRun& run) {
  std::ofstream(run.path("secret")) << std::string(32, 's');
  std::filesystem::permissions(run.path("secret"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return std::make_unique<RunningLitespark>(
      run.train_arguments({"--distribution.secret_file=secret"}), run.path("").string(), "",
      std::vector<std::string>{"env", "LITESPARK_RANK=0", "LITESPARK_LOCAL_RANK=0", "LITESPARK_SIZE=2",
                               "LITESPARK_JOB=lonely", "LITESPARK_ATTEMPT=0", "LITESPARK_HOST=127.0.0.1",
                               "LITESPARK_PORT=" + free_port()});
}

TEST(StopRequest, BeforeTheFirstStepASignalEndsTheRunWithItsCodeAndALine) {
  for (const auto& [number, name] : {std::pair{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}}) {
    const SmallRun run;
    const auto rank = start_lonely_rank(run);
    ASSERT_TRUE(await([&] { return handles_interrupts(rank->process()); }));
    rank->send(number);
    const ProgramResult result = rank->wait();
    if (contains(result.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
    EXPECT_EQ(result.exit_code, 5) << result.errors;
    EXPECT_EQ(result.errors, std::string("litespark: stopped by ") + name +
                                 " while no step was under way: there was nothing to save\n");
  }
}

TEST(StopRequest, TheSecondInterruptEndsTheStepThatIsUnderWayWithTheCodeAndALine) {
  const SmallRun run;
  const auto program = run.start("cut", {"--train.steps=1000000", "--train.micro_batch=512", "--data.seq_len=512"});
  program->send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  program->send(SIGINT);
  const ProgramResult cut = program->wait();
  EXPECT_EQ(cut.exit_code, 5) << cut.output << cut.errors;
  EXPECT_TRUE(contains(cut.errors,
                       "litespark: stopped by SIGINT for the second time, at once: steps after the newest "
                       "checkpoint are lost\n"));
  EXPECT_FALSE(run.exists("cut/checkpoints/step-1"));
}

// Wherever they are: started a moment ago, meeting each other, in the first step.
TEST(StopRequest, RanksThatWereJustStartedEndWithTheCodeAndALineAndNoneIsLeftBehind) {
  for (const int milliseconds : {0, 5, 20, 60}) {
    const SmallRun run;
    RunningLitespark program(run.train_arguments({"--gpus=2", "--train.steps=1000000", "--out=cut"}),
                             run.path("").string());
    ASSERT_TRUE(await([&] { return program.children().size() == 2; }));
    const std::vector<pid_t> ranks = program.children();
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    for (int press = 0; press < 2; ++press) program.send(SIGINT);
    const ProgramResult result = program.wait();
    if (contains(result.errors, kNoEngine)) GTEST_SKIP() << kNoEngine;
    EXPECT_EQ(result.exit_code, 5) << milliseconds << result.errors;
    const bool was_saved = result.output.find("stopped; saved") != std::string::npos;
    EXPECT_TRUE(was_saved || contains(result.errors, "litespark: stopped by SIGINT ")) << milliseconds;
    for (const pid_t rank : ranks) EXPECT_EQ(kill(rank, 0), -1) << milliseconds;
  }
}

TEST(StopRequest, RanksAreCalledByTheProgramsName) {
  const SmallRun run;
  RunningLitespark program(run.train_arguments({"--gpus=2", "--train.steps=1000000", "--out=cut"}),
                           run.path("").string());
  ASSERT_TRUE(await([&] { return program.children().size() == 2; }));
  for (const pid_t rank : program.children()) {
    EXPECT_TRUE(await([&] { return status_line(rank, "Name:\t") == "litespark"; })) << status_line(rank, "Name:\t");
  }
  program.send(SIGINT);
  program.wait();
}

}  // namespace
}  // namespace litespark
