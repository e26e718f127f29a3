// SPDX-License-Identifier: Apache-2.0
// Training on 8-bit matmuls, emulated on the CPU: it learns as bf16 does, and every invariant of training holds.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "train/tiny_run.h"
#include "train/trainer.h"

namespace litespark {
namespace {

ProgramOptions bf16_options() {
  ProgramOptions options = tiny_program_options();
  options.compute = options.residual = DType::kBF16;
  return options;
}

ProgramOptions fp8_options(Fp8Options fp8 = {}) {
  ProgramOptions options = bf16_options();
  fp8.allows_emulation = true;
  options.fp8 = fp8;
  return options;
}

constexpr Fp8Options kForms[] = {{},
                                 {.gradient = DType::kE5M2},
                                 {.scaling = Fp8Scaling::kRow},
                                 {.gradient = DType::kE5M2, .scaling = Fp8Scaling::kRow}};

TEST(Fp8Training, LearnsAsBf16Does) {
  constexpr int kSteps = 60;
  TinyRun reference(tiny_model(), bf16_options(), some_batches(), tiny_trainer_options(kSteps));
  const auto expected = run_steps(reference, kSteps);
  EXPECT_FALSE(expected.front().fp8.has_value());
  for (const Fp8Options& form : kForms) {
    TinyRun run(tiny_model(), fp8_options(form), some_batches(), tiny_trainer_options(kSteps));
    expect_learns_as_bf16(run_steps(run, kSteps), expected);
  }
}

TEST(Fp8Training, RecomputeChangesNeitherLossNorWeights) {
  for (const Fp8Scaling scaling : {Fp8Scaling::kTensor, Fp8Scaling::kRow}) {
    expect_recompute_changes_nothing(fp8_options({.scaling = scaling}),
                                     [](const StepRecord& found, const StepRecord& expected) {
                                       EXPECT_EQ(found.fp8->gradients_flushed, expected.fp8->gradients_flushed);
                                     });
  }
}

TEST(Fp8Training, ThreadsChangeNoBit) {
  TinyRun one(tiny_model(), fp8_options(), some_batches(), tiny_trainer_options(), {.threads = 1});
  TinyRun four(tiny_model(), fp8_options(), some_batches(), tiny_trainer_options(), {.threads = 4});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one.trainer.step_and_finish().loss, four.trainer.step_and_finish().loss);
  EXPECT_EQ(one.weights(), four.weights());
}

TEST(Fp8Training, AccumulationSumsMicroBatchesInF32) {
  ProgramOptions options = fp8_options();
  options.accumulates = true;
  TrainerOptions trainer = tiny_trainer_options();
  trainer.accumulation = 2;
  TinyRun run(tiny_model(), options, some_batches(), trainer);
  // Two equal micro-batches: the same mean loss and, in f32, the same normalised gradient as one of them.
  TinyRun twice(tiny_model(), options, {some_batches()[0]}, trainer);
  TinyRun once(tiny_model(), fp8_options(), {some_batches()[0]}, tiny_trainer_options());
  const StepRecord doubled = twice.trainer.step_and_finish();
  const StepRecord single = once.trainer.step_and_finish();
  EXPECT_EQ(doubled.loss, single.loss);
  EXPECT_NEAR(doubled.grad_norm, single.grad_norm, 1e-5 * single.grad_norm);
  EXPECT_TRUE(std::isfinite(run.trainer.step_and_finish().loss));
}

TEST(Fp8Training, TheOptimizerLeavesTheMagnitudesThatMeasuringItsWeightsWouldFind) {
  TinyRun run(tiny_model(), fp8_options(), some_batches(), tiny_trainer_options());
  const Program& program = run.executor.program();
  const auto magnitudes = [&] {
    std::vector<float> values(static_cast<size_t>(program.tensors[program.fp8.weight_abs_max].shape.num_elements()));
    run.executor.read(program.fp8.weight_abs_max, values.data(), std::ssize(values) * 4);
    return values;
  };
  const std::vector<float> loaded = magnitudes();
  for (int i = 0; i < 3; ++i) run.trainer.step_and_finish();
  const std::vector<float> trained = magnitudes();
  EXPECT_NE(trained, loaded);
  run.executor.run(Phase::kMeasure);
  EXPECT_EQ(magnitudes(), trained);
}

TEST(Fp8Training, NoScaleOutlivesItsMicroBatch) {  // fault:C13
  TinyRun run(tiny_model(), fp8_options(), some_batches(), tiny_trainer_options());
  TinyRun late(tiny_model(), fp8_options(), some_batches(), tiny_trainer_options());
  // A magnitude left over from anything before would only ever make scales coarser.
  const TensorId abs_max = late.executor.program().fp8.abs_max;
  const std::vector<float> huge(static_cast<size_t>(late.executor.program().tensors[abs_max].shape.num_elements()),
                                1e30f);
  late.executor.write(abs_max, huge.data(), static_cast<int64_t>(huge.size() * sizeof(float)));
  EXPECT_EQ(run.trainer.step_and_finish().loss, late.trainer.step_and_finish().loss);
  EXPECT_EQ(run.weights(), late.weights());
}

TEST(Fp8Training, AnInfinityInAWeightIsCountedAndTheStepIsSkipped) {  // fault:C13
  TinyRun run(tiny_model(), fp8_options(), some_batches(), tiny_trainer_options());
  const Program& program = run.executor.program();
  const int64_t down = *program.params.find(ParamRole::kDown, 1);
  std::vector<float> values = get_parameter(run.executor, down);
  values[3] = INFINITY;
  set_parameter(run.executor, down, values);
  pack_weights(run.executor);
  const StepRecord record = run.trainer.step_and_finish();
  EXPECT_TRUE(record.skipped);
  EXPECT_GT(record.fp8->overflows, 0);
}

}  // namespace
}  // namespace litespark
