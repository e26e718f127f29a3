// SPDX-License-Identifier: Apache-2.0
// Two processes and one run folder: the second one is told who is there; a killed one leaves nothing in the way.
#include <gtest/gtest.h>

#include <csignal>

#include "cli/small_run.h"
#include "io/folder_lock.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(RunLock, ASecondTrainingInTheSameFolderIsRefused) {
  const SmallRun run;
  const auto first = run.start("shared", {"--train.steps=100000000"});
  const ProgramResult second = run.train({"--out=shared"});
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_TRUE(contains(second.errors, "[shared] another process writes into this folder"));
  std::string holder = run.text(std::string("shared/") + kLockFile);
  holder.pop_back();
  EXPECT_TRUE(contains(second.errors, "got process " + holder + ","));
  const ProgramResult elsewhere = run.train({"--out=other"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.errors;
  first->send(SIGTERM);
  EXPECT_EQ(first->wait().exit_code, 5);
}

TEST(RunLock, AKilledTrainingLeavesTheFolderFree) {
  const SmallRun run;
  const auto first = run.start("shared", {"--train.steps=100000000"});
  first->send(SIGKILL);
  EXPECT_EQ(first->wait().exit_code, 128 + SIGKILL);
  const ProgramResult second = run.train({"--out=shared"});
  EXPECT_EQ(second.exit_code, 0) << second.errors;
}

}  // namespace
}  // namespace litespark
