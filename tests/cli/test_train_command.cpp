// SPDX-License-Identifier: Apache-2.0
// `litespark train` in the small: it runs, leaves the effective configuration, and that runs again to the same numbers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

class TrainCommand : public testing::Test {
 protected:
  TrainCommand() : folder_(scratch_.path() / "train_command") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "small.toml") << "[model]\nvocab_size = 64\nhidden_size = 32\nintermediate_size = 64\n"
                                             "num_hidden_layers = 1\nnum_attention_heads = 2\n"
                                             "[data]\nsource = \"synthetic\"\nseq_len = 8\n"
                                             "[train]\nsteps = 3\nmicro_batch = 2\n"
                                             "[precision]\ncompute = \"fp32\"\n";
  }

  static std::string text_of(const std::filesystem::path& path) {
    std::ifstream stream(path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const test::TemporaryFolder scratch_;
  std::filesystem::path folder_;
};

TEST_F(TrainCommand, WritesTheEffectiveConfigWhichPlansTheSame) {  // report:B45 fault:F5
  const ProgramResult result = run_litespark({"train", "small.toml", "--optim.lr=0.01"}, folder_.string());
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "step 3/3"));
  const std::string effective = text_of(folder_ / "runs/small/run.toml");
  EXPECT_TRUE(contains(effective, "lr = 0.01\n"));
  EXPECT_TRUE(contains(effective, "warmup = 0\n"));

  const ProgramResult again = run_litespark({"train", "runs/small/run.toml"}, folder_.string());
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(text_of(folder_ / "runs/small/run.toml"), effective);
  const auto loss = [](const std::string& text) { return text.substr(text.rfind("loss"), 11); };
  EXPECT_EQ(loss(again.output), loss(result.output));
}

TEST_F(TrainCommand, OtherTasksAreRefused) {
  const ProgramResult result = run_litespark({"train", "small.toml", "--task=ppo"}, folder_.string());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "task"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(TrainCommand, ARunFolderThatCannotBeMadeIsAStorageError) {
  const ProgramResult result = run_litespark({"train", "small.toml", "--out=small.toml/x"}, folder_.string());
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_TRUE(contains(result.errors, "run folder"));
}

}  // namespace
}  // namespace litespark
