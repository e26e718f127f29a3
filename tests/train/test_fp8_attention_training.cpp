// SPDX-License-Identifier: Apache-2.0
// Training with attention's forward on 8-bit floats, emulated on the CPU: it learns as bf16 does, alone and beside
// 8-bit matmuls, and every invariant of training holds.
#include <gtest/gtest.h>

#include <cmath>

#include "train/tiny_run.h"
#include "train/trainer.h"

namespace litespark {
namespace {

ProgramOptions attention_options() {
  ProgramOptions options = tiny_program_options();
  options.compute = options.residual = DType::kBF16;
  options.fp8_attention = Fp8AttentionOptions{.allows_emulation = true};
  return options;
}

TEST(Fp8AttentionTraining, LearnsAsBf16Does) {
  constexpr int kSteps = 60;
  ProgramOptions options = attention_options();
  options.fp8_attention.reset();
  TinyRun reference(tiny_model(), options, some_batches(), tiny_trainer_options(kSteps));
  const auto expected = run_steps(reference, kSteps);
  for (const bool has_fp8_matmuls : {false, true}) {
    options = attention_options();
    if (has_fp8_matmuls) options.fp8 = Fp8Options{.allows_emulation = true};
    TinyRun run(tiny_model(), options, some_batches(), tiny_trainer_options(kSteps));
    expect_learns_as_bf16(run_steps(run, kSteps), expected);
  }
}

TEST(Fp8AttentionTraining, TheFirstGradientIsCloseToThatOfBf16) {
  ProgramOptions options = attention_options();
  TinyRun run(tiny_model(), options, some_batches(), tiny_trainer_options());
  options.fp8_attention.reset();
  TinyRun reference(tiny_model(), options, some_batches(), tiny_trainer_options());
  const StepRecord found = run.trainer.step_and_finish();
  const StepRecord expected = reference.trainer.step_and_finish();
  EXPECT_NEAR(found.loss, expected.loss, 0.01 * expected.loss);
  EXPECT_NEAR(found.grad_norm, expected.grad_norm, 0.02 * expected.grad_norm);
}

TEST(Fp8AttentionTraining, AllocatesExactlyWhatThePlanSays) {
  TinyRun run(tiny_model(), attention_options(), some_batches(), tiny_trainer_options());
  EXPECT_EQ(run.executor.allocated_bytes(), run.executor.program().memory->total_bytes());
}

TEST(Fp8AttentionTraining, RecomputeChangesNeitherLossNorWeights) {
  expect_recompute_changes_nothing(attention_options(), [](const StepRecord& found, const StepRecord& expected) {
    EXPECT_EQ(found.fp8->inputs_flushed, expected.fp8->inputs_flushed);
  });
}

TEST(Fp8AttentionTraining, ThreadsChangeNoBit) {
  TinyRun one(tiny_model(), attention_options(), some_batches(), tiny_trainer_options(), {.threads = 1});
  TinyRun four(tiny_model(), attention_options(), some_batches(), tiny_trainer_options(), {.threads = 4});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one.trainer.step_and_finish().loss, four.trainer.step_and_finish().loss);
  EXPECT_EQ(one.weights(), four.weights());
}

// With no scale that outlives a micro-batch, a resume continues bit for bit.
TEST(Fp8AttentionTraining, NoScaleOutlivesItsMicroBatch) {  // fault:C13
  TinyRun run(tiny_model(), attention_options(), some_batches(), tiny_trainer_options());
  TinyRun late(tiny_model(), attention_options(), some_batches(), tiny_trainer_options());
  const Program& program = late.executor.program();
  for (const TensorId id : {program.fp8.attention_abs_max, program.fp8.attention_scale}) {
    const std::vector<float> huge(static_cast<size_t>(program.tensors[id].shape.num_elements()), 1e30f);
    late.executor.write(id, huge.data(), static_cast<int64_t>(huge.size() * sizeof(float)));
  }
  EXPECT_EQ(run.trainer.step_and_finish().loss, late.trainer.step_and_finish().loss);
  EXPECT_EQ(run.weights(), late.weights());
}

TEST(Fp8AttentionTraining, AnInfinityInAWeightIsCountedAndTheStepIsSkipped) {  // fault:C13
  TinyRun run(tiny_model(), attention_options(), some_batches(), tiny_trainer_options());
  const int64_t qkv = *run.executor.program().params.find(ParamRole::kQkv, 1);
  std::vector<float> values = get_parameter(run.executor, qkv);
  values[3] = INFINITY;
  set_parameter(run.executor, qkv, values);
  pack_weights(run.executor);
  const StepRecord record = run.trainer.step_and_finish();
  EXPECT_TRUE(record.skipped);
  EXPECT_GT(record.fp8->overflows, 0);
}

}  // namespace
}  // namespace litespark
