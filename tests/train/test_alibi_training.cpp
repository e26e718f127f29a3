// SPDX-License-Identifier: Apache-2.0
// A model whose attention falls with distance, trained from scratch: it learns, and neither
// recomputation nor threads change its bits.
#include <gtest/gtest.h>

#include "ops/cpu/cpu_backend.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

ModelConfig alibi_model() {
  ModelConfig config = tiny_model();
  config.positions = Positions::kAlibi;
  return config;
}

TEST(AlibiTraining, LearnsWhatItSees) {
  TinyRun run(alibi_model(), tiny_program_options(), some_batches(), tiny_trainer_options(30));
  const std::vector<StepRecord> records = run_steps(run, 30);
  EXPECT_LT(records.back().loss, 0.8 * records.front().loss);
  EXPECT_EQ(records.back().skipped_total, 0);
}

TEST(AlibiTraining, DiffersFromRotaryPositionsOnTheSameWeights) {
  TinyRun alibi(alibi_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  TinyRun rope(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  EXPECT_EQ(alibi.weights(), rope.weights());
  EXPECT_NE(alibi.trainer.step_and_finish().loss, rope.trainer.step_and_finish().loss);
}

TEST(AlibiTraining, RecomputationChangesNothing) {
  for (const Recompute recompute : {Recompute::kAttention, Recompute::kKeepAttention, Recompute::kEveryK}) {
    ProgramOptions options = tiny_program_options();
    TinyRun plain(alibi_model(), options, some_batches(), tiny_trainer_options());
    options.recompute = recompute;
    options.recompute_every = 2;
    TinyRun run(alibi_model(), options, some_batches(), tiny_trainer_options());
    run_steps(plain, 2);
    run_steps(run, 2);
    EXPECT_EQ(run.weights(), plain.weights());
  }
}

// Without AVX-512 the library's f32 product adds in an order that depends on how many rows it is given, and those
// depend on the threads.
TEST(AlibiTraining, HasTheSameBitsOnAnyNumberOfThreadsAndElseTheSameWeightsWithinRounding) {
  TinyRun one(alibi_model(), tiny_program_options(), some_batches(), tiny_trainer_options(), {.threads = 1});
  TinyRun three(alibi_model(), tiny_program_options(), some_batches(), tiny_trainer_options(), {.threads = 3});
  run_steps(one, 2);
  run_steps(three, 2);
  if (detect_cpu_isa() >= CpuIsa::kAvx512) {
    EXPECT_EQ(one.weights(), three.weights());
    return;
  }
  const std::vector<float> expected = one.weights();
  const std::vector<float> found = three.weights();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
}

}  // namespace
}  // namespace litespark
