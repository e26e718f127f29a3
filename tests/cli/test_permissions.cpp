// SPDX-License-Identifier: Apache-2.0
// Files and folders that the user may not touch: an error that names them and says so, and never a run that goes on as
// if they were not there. Root may touch everything, so for root the program runs as somebody else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

/// A user whom no system has.
const std::vector<std::string> kStranger = {"setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"};

class Permissions : public testing::Test {
 protected:
  void SetUp() override { fs::permissions(run_.path(""), fs::perms::all); }
  void TearDown() override {
    for (const auto& entry : fs::recursive_directory_iterator(run_.path(""))) {
      if (entry.is_directory()) fs::permissions(entry, fs::perms::owner_all, fs::perm_options::add);
    }
  }

  ProgramResult train(std::vector<std::string> settings) const {
    settings.insert(settings.end(), {"--meter.peak_tflops=1", "--out=out"});
    return run_.train(settings, geteuid() == 0 ? kStranger : std::vector<std::string>{});
  }
  /// A run of six steps whose newest checkpoint is of the fourth.
  void make_run_to_resume() const {
    const ProgramResult made = train({"--checkpoint.every=2"});
    ASSERT_EQ(made.exit_code, 0) << made.errors;
    fs::remove_all(run_.path("out/checkpoints/step-6"));
    ASSERT_TRUE(run_.exists("out/checkpoints/step-4/COMPLETE"));
  }
  static void forbid(const fs::path& path) { fs::permissions(path, fs::perms::none); }
  static void make_read_only(const fs::path& path) {
    fs::permissions(path, fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write,
                    fs::perm_options::remove);
  }

  SmallRun run_;
};

TEST_F(Permissions, ATextThatMayNotBeReadIsNamed) {
  std::ofstream(run_.path("text.txt")) << std::string(4000, 'a');
  forbid(run_.path("text.txt"));
  const ProgramResult result = train({"--data.source=text", "--data.path=text.txt", "--model.vocab_size=256"});
  EXPECT_EQ(result.exit_code, 4) << result.errors;
  EXPECT_TRUE(contains(result.errors, "text.txt"));
  EXPECT_TRUE(contains(result.errors, "Permission denied"));
}

TEST_F(Permissions, AShardFolderThatMayNotBeEnteredIsNamed) {
  fs::create_directory(run_.path("shards"));
  forbid(run_.path("shards"));
  const ProgramResult result = train({"--data.source=shards", "--data.path=shards"});
  EXPECT_EQ(result.exit_code, 4) << result.errors;
  EXPECT_TRUE(contains(result.errors, "shards"));
  EXPECT_TRUE(contains(result.errors, "Permission denied"));
}

TEST_F(Permissions, ARunFileThatMayNotBeReadIsNamed) {
  forbid(run_.path("small.toml"));
  const ProgramResult result = train({});
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(contains(result.errors, "small.toml"));
  EXPECT_TRUE(contains(result.errors, "Permission denied"));
}

TEST_F(Permissions, AFolderInWhichNoRunMayBeMadeIsNamed) {
  make_read_only(run_.path(""));
  const ProgramResult result = train({});
  EXPECT_EQ(result.exit_code, 4) << result.errors;
  EXPECT_TRUE(contains(result.errors, "out"));
  EXPECT_TRUE(contains(result.errors, "Permission denied"));
}

TEST_F(Permissions, ARunFolderThatMayNotBeWrittenIsNamedAndLeftAsItWas) {
  make_run_to_resume();
  const std::string before = run_.text("out/metrics.jsonl");
  make_read_only(run_.path("out"));
  const ProgramResult result = train({});
  EXPECT_EQ(result.exit_code, 4) << result.errors;
  EXPECT_TRUE(contains(result.errors, "out"));
  EXPECT_TRUE(contains(result.errors, "Permission denied"));
  EXPECT_EQ(run_.text("out/metrics.jsonl"), before);
}

TEST_F(Permissions, ACheckpointThatMayNotBeReadStopsTheResume) {
  make_run_to_resume();
  forbid(run_.path("out/checkpoints/step-4/model.safetensors"));
  const ProgramResult result = train({});
  EXPECT_EQ(result.exit_code, 4) << result.errors;
  EXPECT_TRUE(contains(result.errors, "model.safetensors"));
  EXPECT_TRUE(contains(result.errors, "Permission denied"));
}

// Taken for a run without checkpoints it would start over and end in writing over them.
TEST_F(Permissions, ACheckpointFolderThatMayNotBeEnteredIsNoFreshStart) {
  make_run_to_resume();
  for (const char* folder : {"out/checkpoints/step-4", "out/checkpoints"}) {
    forbid(run_.path(folder));
    const ProgramResult result = train({});
    EXPECT_EQ(result.exit_code, 4) << folder << ": " << result.errors;
    EXPECT_TRUE(contains(result.errors, "checkpoints"));
    EXPECT_TRUE(contains(result.errors, "Permission denied"));
    EXPECT_EQ(result.output.find("step 1/6"), std::string::npos);
    fs::permissions(run_.path(folder), fs::perms::owner_all);
  }
}

}  // namespace
}  // namespace litespark
