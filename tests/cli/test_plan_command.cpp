// SPDX-License-Identifier: Apache-2.0
// `litespark plan` over the run files that come with the program.
#include <gtest/gtest.h>

#include <filesystem>

#include "io/run_file.h"
#include "prepare/prepare.h"
#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

std::filesystem::path configs() {
  return std::filesystem::path(LITESPARK_SOURCE_DIR) / "configs";
}

std::string plan(const char* config, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"plan", (configs() / config).string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = run_litespark(arguments);
  EXPECT_EQ(result.exit_code, 0) << config << ": " << result.errors;
  EXPECT_EQ(result.errors, "") << config;
  return result.output;
}

TEST(Plan, EveryRunFileLoadsAndReadsBackEqual) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(configs())) {
    if (entry.path().extension() != ".toml") continue;
    if (entry.path().stem().string().ends_with("-data")) {  // a file of `litespark prepare`
      PrepareConfig data;
      read_toml(test::file_text(entry.path()), "data", Fields::of(data));
      EXPECT_FALSE(data.output.path.empty()) << entry.path();
      continue;
    }
    ++count;
    const RunConfig config = read_run_file(entry.path());
    RunConfig again;
    const std::string text = run_config_toml(config);
    read_toml(text, "again", Fields::of(again));
    EXPECT_EQ(run_config_toml(again), text) << entry.path();
    EXPECT_TRUE(config.ignored_settings().empty()) << entry.path();
  }
  EXPECT_GE(count, 5);
}

TEST(Plan, ShowsOwnersPeaksAndTotal) {
  const std::string text = plan("5m.toml");
  for (const char* part : {"5.40 M parameters", "activations", "train_first forward", "train_first backward", "total",
                           "library sizes exact"}) {
    EXPECT_TRUE(contains(text, part));
  }
}

TEST(Plan, ChoosesTheMicroBatchForADeviceThatIsNotThere) {
  const std::string text =
      plan("llama-3.2-3b.toml", {"--train.micro_batch=0", "--train.accumulation=16", "--device-memory=80GiB"});
  for (const char* part : {"train.micro_batch = 2 with train.accumulation = 8 and memory.recompute = \"none\": ",
                           "slower by prediction", "2 x 4096 tokens at a time, 65.5 k a step"}) {
    EXPECT_TRUE(contains(text, part));
  }
  const std::string json = plan(
      "llama-3.2-3b.toml", {"--train.micro_batch=0", "--train.accumulation=16", "--device-memory=80GiB", "--json"});
  EXPECT_EQ(json.front(), '{');
}

TEST(Plan, AnOpenMicroBatchNeedsASize) {
  const ProgramResult result = run_litespark({"plan", (configs() / "5m.toml").string(), "--train.micro_batch=0"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "--device-memory"));
}

TEST(Plan, ARunThatDoesNotFitIsToldWhatWould) {
  const ProgramResult result =
      run_litespark({"plan", (configs() / "llama-3.2-3b.toml").string(), "--memory.budget=40GiB"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "precision.master = \"bf16-remainder\""));
  EXPECT_TRUE(contains(result.errors, "would fit, with "));
}

TEST(Plan, OverridesChangeThePlan) {
  EXPECT_TRUE(contains(plan("5m.toml", {"--train.accumulation=2"}), "train_next backward"));
  EXPECT_NE(plan("5m.toml"), plan("5m.toml", {"--train.micro_batch=4"}));
  EXPECT_EQ(plan("5m.toml"), plan("5m.toml", {"--optim.lr=1e-5"}));
}

TEST(Plan, JsonIsOneObject) {
  const std::string text = plan("5m.toml", {"--json"});
  EXPECT_TRUE(text.starts_with("{"));
  EXPECT_TRUE(contains(text, "\"parameters\": 5401856"));
  EXPECT_TRUE(contains(text, "\"total_bytes\": "));
  EXPECT_TRUE(contains(text, "\"exact\": true"));
}

TEST(Plan, GpuRunsArePlannedWithoutAGpu) {
  const std::string text = plan("llama-3.2-1b.toml");
  EXPECT_TRUE(contains(text, "1.24 B parameters"));
  EXPECT_TRUE(contains(text, "library sizes"));
}

TEST(Plan, SettingsWithoutEffectAreWarnedOf) {
  const ProgramResult result = run_litespark({"plan", (configs() / "5m.toml").string(), "--data.path=x"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(contains(result.errors, "warning: no effect: data.path"));
}

TEST(Plan, ARunThatPassesItsBudgetIsRefusedWithWhatWouldFit) {
  const ProgramResult result = run_litespark({"plan", (configs() / "5m.toml").string(), "--memory.budget=200MiB"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.output, "total"));
  EXPECT_TRUE(contains(result.errors, "the run does not fit"));
  EXPECT_TRUE(contains(result.errors, "would fit, with "));
  EXPECT_EQ(run_litespark({"plan", (configs() / "5m.toml").string(), "--memory.budget=10GiB"}).exit_code, 0);
}

}  // namespace
}  // namespace litespark
