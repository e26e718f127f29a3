// SPDX-License-Identifier: Apache-2.0
// A run file read, overridden, written and read again; every kind of slip in it is refused with its place and a hint.
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "io/run_file.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

constexpr const char* kSmallRun = R"(seed = 3
[model]
vocab_size = 128
hidden_size = 64
intermediate_size = 172
num_hidden_layers = 2
num_attention_heads = 4
[model.rope_scaling]
rope_type = "linear"
factor = 2
[data]
source = "synthetic"
seq_len = 64
[train]
steps = 20
[optim]
lr = 1e-3
betas = [0.9, 0.99]
)";

class RunFile : public testing::Test {
 protected:
  RunFile() : folder_(scratch_.path() / "run_file") { std::filesystem::create_directories(folder_); }

  std::filesystem::path write(const std::string& text, const char* name = "small.toml") const {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }

  static std::string refused(const std::string& text) {
    RunConfig config;
    const Fields fields = Fields::of(config);
    return error_text<ConfigError>([&] { read_toml(text, "run.toml", fields); });
  }

  static std::string refused_override(std::vector<ConfigOverride> overrides) {
    RunConfig config;
    const Fields fields = Fields::of(config);
    return error_text<ConfigError>([&] { apply_overrides(overrides, fields); });
  }

  const test::TemporaryFolder scratch_;
  std::filesystem::path folder_;
};

TEST_F(RunFile, ReadsKeysOfEveryLevel) {
  const RunConfig config = read_run_file(write(kSmallRun));
  EXPECT_EQ(config.seed, 3);
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_EQ(config.model.rope_scaling.factor, 2.0);
  EXPECT_EQ(config.train.steps, 20);
  EXPECT_EQ(config.optim.betas, (std::vector<double>{0.9, 0.99}));
  EXPECT_EQ(config.train.micro_batch, 16);
  EXPECT_EQ(config.out, "runs/small");
}

TEST_F(RunFile, OverridesWinOverTheFile) {
  const std::vector<ConfigOverride> overrides = {
      {"train.steps", "50"}, {"optim.betas", "0.8,0.9"}, {"out", "runs/x"}, {"model.rope_scaling.factor", "4"}};
  const RunConfig config = read_run_file(write(kSmallRun), overrides);
  EXPECT_EQ(config.train.steps, 50);
  EXPECT_EQ(config.optim.betas, (std::vector<double>{0.8, 0.9}));
  EXPECT_EQ(config.out, "runs/x");
  EXPECT_EQ(config.model.rope_scaling.factor, 4.0);
}

TEST_F(RunFile, TheEffectiveConfigReadsBackEqual) {
  const RunConfig first =
      read_run_file(write(kSmallRun),
                    std::vector<ConfigOverride>{
                        {"meter.price_per_kwh", "0.1"}, {"train.sample_prompt", "a\"\\\n"}, {"optim.eps", "1e-20"}});
  const std::string text = run_config_toml(first);
  const RunConfig second = read_run_file(write(text, "effective.toml"));
  EXPECT_EQ(run_config_toml(second), text);
  EXPECT_EQ(second.train.sample_prompt, first.train.sample_prompt);
  EXPECT_EQ(second.meter.price_per_kwh, 0.1);
  EXPECT_EQ(second.out, "runs/small");
}

TEST_F(RunFile, TheManifestFormIsJson) {
  const std::string json = run_config_json(read_run_file(write(kSmallRun)));
  EXPECT_TRUE(contains(json, "\"seed\": 3"));
  EXPECT_TRUE(contains(json, "    \"rope_scaling\": {\n      \"rope_type\": \"linear\""));
  EXPECT_TRUE(contains(json, "\"price_per_kwh\": null"));
}

TEST_F(RunFile, UnknownKeysAreRefusedAtEveryLevelWithLineAndNearest) {  // report:B45 fault:F5
  EXPECT_TRUE(contains(refused("sede = 1"), "[run.toml line 1] unknown key; got sede"));
  EXPECT_TRUE(contains(refused("sede = 1"), "did you mean seed?"));
  EXPECT_TRUE(contains(refused("\n[train]\nstpes = 1"), "[run.toml line 3] unknown key; got train.stpes"));
  EXPECT_TRUE(contains(refused("[train]\nstpes = 1"), "did you mean train.steps?"));
  EXPECT_TRUE(contains(refused("[model.rope_scaling]\nfacter = 1"), "did you mean model.rope_scaling.factor?"));
  EXPECT_TRUE(contains(refused("[trian]\nsteps = 1"), "did you mean train?"));
  EXPECT_TRUE(contains(refused("[model.rope_scalin]\nfactor = 1"), "did you mean model.rope_scaling?"));
  EXPECT_TRUE(contains(refused("train.stpes = 1"), "did you mean train.steps?"));
}

TEST_F(RunFile, HyphensAreRefusedWithTheRightSpelling) {  // report:B45
  EXPECT_TRUE(contains(refused("[train]\nmicro-batch = 1"), "did you mean train.micro_batch?"));
}

TEST_F(RunFile, AKeyInTheWrongSectionIsSentToTheRightOne) {  // report:B45
  EXPECT_TRUE(contains(refused("steps = 1"), "did you mean train.steps?"));
  EXPECT_TRUE(contains(refused("[optim]\nwarmup = 1"), "did you mean schedule.warmup?"));
  EXPECT_TRUE(contains(refused("[train]\nseed = 1"), "did you mean seed?"));
}

TEST_F(RunFile, WrongTypesAreRefusedWithFoundAndExpected) {  // report:B45
  EXPECT_TRUE(
      contains(refused("[train]\nsteps = \"many\""), "train.steps] wrong type; got \"many\", expected integer"));
  EXPECT_TRUE(contains(refused("[train]\nsteps = 1.0"), "got 1.0, expected integer, 1 or more"));
  EXPECT_TRUE(contains(refused("train = 5"), "expected a section, [train]"));
  EXPECT_TRUE(contains(refused("[train.steps]\nx = 1"), "train.steps] wrong type; got a section"));
  EXPECT_TRUE(contains(refused("[optim]\nbetas = [0.9, \"a\"]"), "got a mixed or nested list"));
  EXPECT_TRUE(contains(refused("seed = 2026-01-01"), "got a date or time"));
  EXPECT_TRUE(contains(refused("deterministic = \"true\""), "expected true or false"));
  EXPECT_TRUE(contains(refused("[schedule]\nname = \"cosin\""), "did you mean \"cosine\"?"));
  EXPECT_TRUE(contains(refused("[[train]]\nsteps = 1"), "expected a section"));
}

TEST_F(RunFile, BrokenTomlIsRefusedWithItsLine) {
  EXPECT_TRUE(contains(refused("seed = 1\nseed = 2"), "[run.toml line 2] is not valid TOML"));
  EXPECT_TRUE(contains(refused("seed = "), "is not valid TOML"));
  EXPECT_TRUE(contains(refused("seed = 99999999999999999999"), "is not valid TOML"));
}

TEST_F(RunFile, OverridesAreCheckedLikeTheFile) {
  EXPECT_TRUE(contains(refused_override({{"train.stpes", "1"}}), "[command line] unknown key; got train.stpes"));
  EXPECT_TRUE(contains(refused_override({{"train.steps", "0"}}), "[command line: train.steps] out of range"));
  EXPECT_TRUE(contains(refused_override({{"train", "5"}}), "is a section"));
  EXPECT_TRUE(contains(refused_override({{"train.steps", "1"}, {"train.steps", "2"}}), "two values"));
}

TEST_F(RunFile, ContradictionsAreFoundOnReading) {
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { read_run_file(write("seed = 1")); }), "data.path"));
}

TEST_F(RunFile, UnreadableFilesAreRefused) {
  EXPECT_TRUE(contains(error_text<ConfigError>([&] { read_run_file(folder_ / "absent.toml"); }), "absent.toml"));
  EXPECT_THROW(read_run_file(folder_), ConfigError);
  EXPECT_THROW(read_run_file(write(std::string(1 << 21, '#'))), DataError);
}

}  // namespace
}  // namespace litespark
