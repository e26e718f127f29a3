// SPDX-License-Identifier: Apache-2.0
// `litespark anatomy` as people run it, on chapters that take no time; and what `litespark plan` makes of its files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

class AnatomyCommand : public testing::Test {
 protected:
  ProgramResult anatomy(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"anatomy", "--device=cpu", "--threads=1", "--seconds=0"});
    return run_litespark(arguments, folder_.path().string());
  }
  std::string text(const std::string& name) const { return test::file_text(folder_.path() / name); }

  const test::TemporaryFolder folder_;
};

TEST_F(AnatomyCommand, PrintsAChapterAsTextOrAsJson) {
  const ProgramResult text = anatomy({"fragmentation"});
  EXPECT_EQ(text.exit_code, 0) << text.errors;
  EXPECT_TRUE(contains(text.output, "claim:C11 8.2 % at 2k"));
  const ProgramResult json = anatomy({"fragmentation", "--json"});
  EXPECT_TRUE(json.output.starts_with("[{\"chapter\": \"fragmentation\""));
  EXPECT_TRUE(json.output.ends_with("]\n"));
}

TEST_F(AnatomyCommand, NamesTheNearestChapter) {
  const ProgramResult result = anatomy({"recompue"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "did you mean recompute?"));
}

TEST_F(AnatomyCommand, ListsEveryChapterInItsHelp) {
  const std::string help = run_litespark({"anatomy", "--help"}).output;
  for (const char* name : {"embedding", "positions", "attention", "norm", "collectives", "recompute", "fragmentation",
                           "kernels", "width", "loader", "tuning"}) {
    EXPECT_TRUE(contains(help, std::string(name) + " "));
  }
}

TEST_F(AnatomyCommand, ASignalLeavesNothingOfItsFiles) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    RunningLitespark program({"anatomy", "loader", "--device=cpu", "--threads=1", "--seconds=30"},
                             folder_.path().string());
    for (int time = 0; time < 20000 && std::filesystem::is_empty(folder_.path()); ++time) usleep(1000);
    ASSERT_FALSE(std::filesystem::is_empty(folder_.path()));
    usleep(100000);
    program.send(signal);
    EXPECT_EQ(program.wait().exit_code, 128 + signal);
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << signal;
  }
}

TEST_F(AnatomyCommand, RefusesAHardwareFileThatNothingWouldFill) {
  EXPECT_EQ(anatomy({"loader", "--hardware-file=mine.toml"}).exit_code, 2);
  EXPECT_EQ(anatomy({"kernels", "--compute=f32", "--hardware-file=mine.toml"}).exit_code, 2);
}

TEST_F(AnatomyCommand, StoresWidthsThatPlanJudgesARunBy) {
  const ProgramResult result =
      anatomy({"width", "--width=700", "--hidden-size=256", "--rows=16", "--width-file=widths.toml"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(text("widths.toml"), "hidden = 256"));
  const auto plan = [&](const std::string& ffn) {
    return run_litespark({"plan", std::string(LITESPARK_SOURCE_DIR) + "/configs/5m.toml", "--device.kind=cpu",
                          "--widths=widths.toml", "--model.hidden_size=256", "--model.intermediate_size=" + ffn},
                         folder_.path().string());
  };
  const ProgramResult known = plan("700");
  EXPECT_EQ(known.exit_code, 0) << known.errors;
  EXPECT_TRUE(contains(known.output, "widths near 700, measured on cpu"));
  EXPECT_TRUE(contains(known.output, "measured with neighbouring widths"));
  EXPECT_TRUE(contains(plan("800").output, "litespark anatomy width --width=800 --hidden-size=256 measures it"));
}

TEST_F(AnatomyCommand, SeveralRanksMeasureCollectivesOnly) {
  const ProgramResult result = anatomy({"kernels", "--ranks=2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "litespark anatomy collectives --ranks=N"));
}

}  // namespace
}  // namespace litespark
