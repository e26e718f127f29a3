// SPDX-License-Identifier: Apache-2.0
// Chapters of `litespark anatomy` that take their time, and what `litespark plan` makes of what they found.
#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

ProgramResult anatomy(const test::TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"anatomy", "--device=cpu", "--threads=1", "--seconds=0"});
  return run_litespark(arguments, folder.path().string());
}

TEST(AnatomyCommandMeasures, AHardwareFileThatPlanReads) {
  const test::TemporaryFolder folder;
  const ProgramResult result = anatomy(folder, {"kernels", "collectives", "--hardware-file=mine.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const ProgramResult plan = run_litespark(
      {"plan", std::string(LITESPARK_SOURCE_DIR) + "/configs/5m.toml", "--device.kind=cpu", "--hardware=mine.toml"},
      folder.path().string());
  EXPECT_EQ(plan.exit_code, 0) << plan.errors;
  EXPECT_TRUE(contains(plan.output, "forecast for 1 x cpu ("));
  const std::string text = test::file_text(folder.path() / "mine.toml");
  EXPECT_TRUE(contains(text, "rates measured by litespark anatomy"));
  EXPECT_FALSE(contains(text, "link_gbps = 0.0"));
}

TEST(AnatomyCommandMeasures, WhatProcessesTalkThrough) {
  const test::TemporaryFolder folder;
  const ProgramResult result = anatomy(folder, {"collectives", "--ranks=2"});
  if (result.errors.find("has no Gloo") != std::string::npos) GTEST_SKIP() << "this build has no Gloo";
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "0: collectives: what ranks pay to agree"));
  EXPECT_TRUE(contains(result.output, "gloo, 2 ranks"));
  EXPECT_FALSE(contains(result.output, "1: collectives"));
}

}  // namespace
}  // namespace litespark
