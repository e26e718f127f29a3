// SPDX-License-Identifier: Apache-2.0
// Save and resume: bit-exact, refused when anything differs, damage named.
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "core/rng.h"
#include "io/file.h"
#include "io/hf_config.h"
#include "io/hf_folder.h"
#include "io/sealed_folder.h"
#include "support/temporary_folder.h"
#include "train/checkpoint.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct CheckpointTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path parent = scratch.path() / "checkpoint_test";
  ModelConfig config = tiny_model();
  ParamTable params = make_param_table(config);
  CheckpointContext context{.config = config,
                            .params = params,
                            .identity = {{"seed", "1"}, {"data", "abc"}},
                            .tuning = {{"matmul 64x32", "algo 3"}},
                            .run_toml = "seed = 1\n"};

  void SetUp() override {
    fs::remove_all(parent);
    fs::create_directories(parent);
  }
  std::unique_ptr<TinyRun> make_run(int64_t steps = 12) const {
    return std::make_unique<TinyRun>(config, tiny_program_options(),
                                     std::vector{random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1),
                                                 random_batch(tiny_program_options().batch, {1, 5, 30}, 96, 2),
                                                 random_batch(tiny_program_options().batch, {31, 32}, 96, 3)},
                                     tiny_trainer_options(steps));
  }
  fs::path save(const TinyRun& run, const std::string& name) const {
    TrainingSnapshot snapshot;
    take_snapshot(run.executor, run.trainer, {.joules = 12.5, .train_seconds = 3.25}, snapshot);
    write_checkpoint(parent / name, snapshot, context);
    return parent / name;
  }
  ResumedState resume(TinyRun& run, const fs::path& folder) const {
    const ResumedState state = read_checkpoint(folder, context, run.executor);
    run.trainer.restore(state.progress);
    return state;
  }
  /// Six steps in a row, and as three, a checkpoint and three more.
  void expect_resume_changes_no_bit(const ProgramOptions& options) const {
    const auto make = [&] {
      return std::make_unique<TinyRun>(config, options, std::vector{random_batch(options.batch, {20, 7, 32}, 96, 1)},
                                       tiny_trainer_options(6));
    };
    const auto whole = make();
    for (int i = 0; i < 6; ++i) whole->trainer.step_and_finish();
    const auto first = make();
    for (int i = 0; i < 3; ++i) first->trainer.step_and_finish();
    const auto second = make();
    resume(*second, save(*first, "middle"));
    for (int i = 0; i < 3; ++i) second->trainer.step_and_finish();
    EXPECT_EQ(second->weights(), whole->weights());
  }
};

TEST_F(CheckpointTest, ResumeAfterEveryStepContinuesBitForBit) {  // fault:C5, report:B6
  const auto whole = make_run();
  std::vector<StepRecord> expected;
  for (int i = 0; i < 12; ++i) expected.push_back(whole->trainer.step_and_finish());
  for (int stop = 1; stop < 12; ++stop) {
    const auto first = make_run();
    for (int i = 0; i < stop; ++i) first->trainer.step_and_finish();
    const fs::path folder = save(*first, "step-" + std::to_string(stop));
    const auto second = make_run();
    const ResumedState state = resume(*second, folder);
    EXPECT_EQ(state.totals, (RunTotals{.joules = 12.5, .train_seconds = 3.25}));
    EXPECT_EQ(state.tuning.at("matmul 64x32"), "algo 3");
    for (int i = stop; i < 12; ++i) {
      const StepRecord record = second->trainer.step_and_finish();
      EXPECT_EQ(record.loss, expected[static_cast<size_t>(i)].loss) << stop << " " << i;
      EXPECT_EQ(record.grad_norm, expected[static_cast<size_t>(i)].grad_norm);
      EXPECT_EQ(record.lr, expected[static_cast<size_t>(i)].lr);
      EXPECT_EQ(record.tokens, expected[static_cast<size_t>(i)].tokens);
    }
    EXPECT_EQ(second->weights(), whole->weights());
  }
}

TEST_F(CheckpointTest, ABf16FolderKeepsItsMastersBesideIt) {
  context.folder_dtype = DType::kBF16;
  const auto run = make_run();
  run->trainer.step_and_finish();
  const fs::path folder = save(*run, "step-1");
  const auto other = make_run();
  resume(*other, folder);
  EXPECT_EQ(other->weights(), run->weights());
  EXPECT_EQ(SafetensorsFile::open(folder / "model.safetensors").info("model.norm.weight").dtype,
            SafetensorsDType::kBF16);
}

// The checkpoint holds f32 masters and moments whatever the run keeps: formats of equal bits continue each other.
TEST_F(CheckpointTest, ContinuesAcrossTheFormsOfAMaster) {
  context.folder_dtype = DType::kBF16;
  const auto make = [&](MasterWeights master) {
    ProgramOptions options = tiny_program_options();
    options.compute = DType::kBF16;
    options.master = master;
    return std::make_unique<TinyRun>(config, options, std::vector{random_batch(options.batch, {20, 7, 32}, 96, 1)},
                                     tiny_trainer_options(6));
  };
  const auto whole = make(MasterWeights::kF32);
  for (int i = 0; i < 6; ++i) whole->trainer.step_and_finish();
  for (const bool starts_with_master : {false, true}) {
    const auto first = make(starts_with_master ? MasterWeights::kF32 : MasterWeights::kBF16Remainder);
    for (int i = 0; i < 3; ++i) first->trainer.step_and_finish();
    const auto second = make(starts_with_master ? MasterWeights::kBF16Remainder : MasterWeights::kF32);
    resume(*second, save(*first, starts_with_master ? "a" : "b"));
    for (int i = 0; i < 3; ++i) second->trainer.step_and_finish();
    EXPECT_EQ(second->weights(), whole->weights());
  }
}

TEST_F(CheckpointTest, ResumesBf16WeightsAndMomentsBitForBit) {  // fault:C5: the noise goes on where it was
  context.folder_dtype = DType::kBF16;
  ProgramOptions options = tiny_program_options();
  options.compute = options.moments = options.gradient = DType::kBF16;
  options.master = MasterWeights::kBF16;
  expect_resume_changes_no_bit(options);
}

TEST_F(CheckpointTest, ResumesAttentionOnEightBitsBitForBit) {  // fault:C13: scales have no history
  ProgramOptions options = tiny_program_options();
  options.compute = DType::kBF16;
  options.fp8_attention = Fp8AttentionOptions{.allows_emulation = true};
  expect_resume_changes_no_bit(options);
}

TEST_F(CheckpointTest, IsAHuggingFaceFolder) {
  const auto run = make_run();
  const fs::path folder = save(*run, "step-0");
  EXPECT_EQ(read_hf_config(folder / "config.json").hidden_size, config.hidden_size);
  EXPECT_NO_THROW(HfFolder::open(folder).check(config, params));
}

TEST_F(CheckpointTest, RefusesAnotherRunAndNamesEveryDifference) {  // report:B4, fault:D8
  const auto run = make_run();
  const fs::path folder = save(*run, "step-0");
  context.identity = {{"seed", "1"}, {"data", "other"}, {"tokenizer", "t"}};
  try {
    read_checkpoint(folder, context, run->executor);
    FAIL();
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("data: checkpoint abc, this run other"), std::string::npos) << message;
    EXPECT_NE(message.find("tokenizer"), std::string::npos);
    EXPECT_EQ(message.find("seed:"), std::string::npos);
  }
}

TEST_F(CheckpointTest, RefusesDamageBeforeItTouchesTheModel) {  // fault:A6, fault:A7
  const auto run = make_run();
  run->trainer.step_and_finish();
  const fs::path folder = save(*run, "step-1");
  const auto other = make_run();
  const std::vector<float> before = other->weights();
  const RandomStream random(1, 1);
  uint64_t draw = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string original = read_text_file(entry.path(), 1 << 24);
    for (int round = 0; round < 20; ++round) {
      std::string damaged = original;
      const uint64_t bit = random.below(draw++, original.size() * 8);
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      std::ofstream(entry.path(), std::ios::binary) << damaged;
      EXPECT_THROW(read_checkpoint(folder, context, other->executor), DataError) << entry.path() << " bit " << bit;
    }
    std::ofstream(entry.path(), std::ios::binary) << original;
  }
  EXPECT_EQ(other->weights(), before);
  EXPECT_NO_THROW(resume(*other, folder));
}

TEST_F(CheckpointTest, RefusesTheMomentsOfAnotherShape) {
  const auto run = make_run();
  const fs::path folder = save(*run, "step-0");
  config.intermediate_size = 64;
  params = make_param_table(config);
  TinyRun wider(config, tiny_program_options(), {random_batch(tiny_program_options().batch, {20}, 96, 1)},
                tiny_trainer_options());
  EXPECT_THROW(read_checkpoint(folder, context, wider.executor), DataError);
}

TEST_F(CheckpointTest, StatesItsSizeOnDiskWithinTheSmallFiles) {
  const auto run = make_run();
  const fs::path folder = save(*run, "step-0");
  int64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    bytes += static_cast<int64_t>(entry.file_size());
  EXPECT_LE(bytes, checkpoint_bytes(params, DType::kF32, 0));
  EXPECT_GT(bytes, checkpoint_bytes(params, DType::kF32, 0) - (1 << 20));
}

TEST_F(CheckpointTest, TimedChoicesCanBeReadBeforeAnythingIsPrepared) {
  const auto run = make_run();
  run->trainer.step_and_finish();
  EXPECT_EQ(read_checkpoint_tuning(save(*run, "step-1")), context.tuning);
}

}  // namespace
}  // namespace litespark
