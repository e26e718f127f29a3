// SPDX-License-Identifier: Apache-2.0
// Silent errors: found before they reach a weight, and never where there are none.
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/error_text.h"
#include "support/faulty_backend.h"
#include "train/corruption_check.h"
#include "train/flip_trials.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

struct CorruptionCheckTest : testing::Test {
  test::FaultyBackend* faulty = new test::FaultyBackend(make_cpu_backend({}));
  TinyRun run = make(std::unique_ptr<Backend>(faulty), 3);

  static TinyRun make(std::unique_ptr<Backend> backend, int64_t verify_every) {
    ProgramOptions options = tiny_program_options();
    options.accumulates = true;
    options.has_checksums = true;
    TrainerOptions trainer = tiny_trainer_options();
    trainer.accumulation = 2;
    trainer.verify_every = verify_every;
    return {tiny_model(),
            options,
            {random_batch(options.batch, {20, 7, 32}, 96, 1), random_batch(options.batch, {1, 5, 30, 11}, 96, 2)},
            trainer,
            std::move(backend)};
  }
  /// A flip in the last op of this name in the tape of a first micro-batch, when `step` runs it for the first time.
  void flip_in(const std::string& name, uint64_t seed) {
    faulty->set_faults(
        {.flip_bit_at = 0, .flip_seed = seed, .counts = [name](const std::string& op) { return op == name; }});
  }
};

TEST_F(CorruptionCheckTest, ChangesNoBitOfARunOnSoundHardware) {
  TinyRun without = make(make_cpu_backend({}), 0);
  for (int step = 0; step < 7; ++step) {
    EXPECT_EQ(run.trainer.step_and_finish().grad_norm, without.trainer.step_and_finish().grad_norm);
  }
  EXPECT_EQ(run.weights(), without.weights());
}

TEST_F(CorruptionCheckTest, AWrongGradientIsNamedBeforeAnyUpdate) {  // fault:C4
  run.trainer.step_and_finish();
  run.trainer.step_and_finish();
  const std::vector<float> before = run.weights();
  flip_in("embedding_backward", 11);
  const std::string text = error_text<DeviceError>([&] { run.trainer.step_and_finish(); });
  EXPECT_TRUE(contains(text, "step 3")) << text;
  EXPECT_TRUE(contains(text, "1 of ")) << text;
  EXPECT_TRUE(contains(text, "first that of embedding")) << text;
  EXPECT_EQ(faulty->planted(), 1);
  EXPECT_EQ(run.weights(), before);
  EXPECT_EQ(run.executor.read_state().optimizer_steps, 2);
}

TEST_F(CorruptionCheckTest, StepsBetweenChecksAreNotLookedAt) {
  flip_in("embedding_backward", 11);
  EXPECT_NO_THROW(run.trainer.step_and_finish());
  EXPECT_EQ(faulty->planted(), 1);
}

TEST(CorruptionCheck, FindsEveryFlippedBitThatReachesALossOrAGradient) {  // fault:C4
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    const FlipCounts counts = run_flip_trials(compute, 150, 7);
    EXPECT_GT(counts.planted, 140);  // an op that writes only sums has no tensor to spoil
    EXPECT_GT(counts.effective, 75);
    EXPECT_EQ(counts.detected, counts.effective);
    EXPECT_EQ(counts.missed, 0);
    EXPECT_EQ(counts.false_alarms, 0);
  }
}

}  // namespace
}  // namespace litespark
