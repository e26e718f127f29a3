// SPDX-License-Identifier: Apache-2.0
// `litespark plan --validate`.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

std::string rows() {
  return std::string(LITESPARK_SOURCE_DIR) + "/tests/golden/planner/rows.csv";
}

TEST(PlanValidation, PrintsErrorsOfPublishedRuns) {
  const ProgramResult result = run_litespark({"plan", "--validate", rows()});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* part : {"fit scalar", "all sources", "excluded:", "does not state the model's"}) {
    EXPECT_TRUE(contains(result.output, part));
  }
}

TEST(PlanValidation, FitsAreChosenAndTakenFromOtherFiles) {
  const auto json = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"plan", "--validate", rows(), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_litespark(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.output;
  };
  EXPECT_TRUE(contains(json({"--fit", "none"}), "\"slowness\": {}"));
  EXPECT_NE(json({"--fit=all"}), json({}));
  EXPECT_EQ(json({"--fit-from=" + rows()}), json({}));
}

TEST(PlanValidation, ARowThatCannotBeReadIsAnErrorBehindTheOthersPredictions) {
  const test::TemporaryFolder folder;
  std::string text = test::file_text(rows());
  const size_t at = text.find(",TFLOP/s,");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 9, ",furlongs,");
  const auto path = folder.write("rows.csv", text);
  const ProgramResult result = run_litespark({"plan", "--validate", path.string()});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(contains(result.output, "all sources"));
  EXPECT_TRUE(contains(result.errors, "rows.csv]")) << result.errors;
  EXPECT_TRUE(contains(result.errors, "row 2, column unit: got \"furlongs\", expected one of TFLOP/s"))
      << result.errors;
}

TEST(PlanValidation, WhatMakesNoSenseIsRefused) {
  EXPECT_TRUE(contains(run_litespark({"plan"}).errors, "RUN.toml"));
  EXPECT_TRUE(contains(run_litespark({"plan", "--validate=no-such.csv"}).errors, "is not a file"));
  EXPECT_TRUE(contains(run_litespark({"plan", "x.toml", "--validate", rows()}).errors, "takes no run file"));
  EXPECT_TRUE(contains(run_litespark({"plan", "x.toml", "--fit-from", rows()}).errors, "needs --validate"));
  const test::TemporaryFolder folder;
  const auto empty = folder.write("empty.csv", "");
  const ProgramResult result = run_litespark({"plan", "--validate", empty.string()});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(contains(result.errors, "is empty"));
}

TEST(PlanValidation, NamesOfRowsCannotSteerATerminal) {
  const test::TemporaryFolder folder;
  std::string text = test::file_text(rows());
  text = text.substr(0, text.find('\n') + 1);
  const auto columns = static_cast<size_t>(std::count(text.begin(), text.end(), ',')) + 1;
  text += "a\x1b[2Jb" + std::string(columns - 1, ',') + "\n";
  const auto file = folder.write("rows.csv", text);
  const ProgramResult result = run_litespark({"plan", "--validate", file.string()});
  EXPECT_TRUE(contains(result.output + result.errors, "\\x1b[2J"));
  EXPECT_EQ((result.output + result.errors).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace litespark
