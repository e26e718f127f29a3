// SPDX-License-Identifier: Apache-2.0
// The page that a run leaves, and `litespark report` for a folder of any age.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

TEST(Report, ARunLeavesItsPageAndSaysWhere) {
  const SmallRun run;
  const ProgramResult trained = run.train();
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_TRUE(trained.output.ends_with("report: runs/small/report.html\n")) << trained.output;
  const std::string page = run.text("runs/small/report.html");
  EXPECT_TRUE(contains(page, "data-name=\"training\" data-xs=\"1,2,3,4,5,6\""));
  EXPECT_TRUE(contains(page, "Memory by owner</h2>\n<p class=\"absent\">"));
  EXPECT_TRUE(contains(page, "<td>optimizer</td>"));
  EXPECT_TRUE(contains(page, "In checkpoints/: step-6."));

  std::filesystem::remove(run.path("runs/small/report.html"));
  const ProgramResult again = run_litespark({"report", run.path("runs/small").string()});
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(again.output, "report: " + run.path("runs/small/report.html").string() + "\n");
  EXPECT_EQ(run.text("runs/small/report.html"), page);
}

TEST(Report, AFolderThatIsNoRunIsRefused) {
  const SmallRun run;
  const ProgramResult result = run_litespark({"report", run.path("").string()});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(contains(result.errors, "is not a run folder"));
}

TEST(Report, ABrokenFileCostsARunItsPageButNotItsEnd) {
  const SmallRun run;
  std::filesystem::create_directories(run.path("runs/small"));
  std::ofstream(run.path("runs/small/samples.jsonl")) << "{broken\n";
  const ProgramResult more = run.train();
  EXPECT_EQ(more.exit_code, 0) << more.errors;
  EXPECT_TRUE(contains(more.errors, "warning: no report: [runs/small/samples.jsonl:1]")) << more.errors;
  EXPECT_TRUE(run.exists("runs/small/checkpoints/step-6/COMPLETE"));
}

}  // namespace
}  // namespace litespark
