// SPDX-License-Identifier: Apache-2.0
// Training invariants, each named by what it promises.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "data/synthetic_source.h"
#include "support/error_text.h"
#include "support/faulty_backend.h"
#include "train/tiny_run.h"
#include "train/trainer.h"

namespace litespark {
namespace {

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
    norm += double{b[i]} * double{b[i]};
  }
  return std::sqrt(difference / norm);
}

TEST(Trainer, LearnsToRepeatWhatItSees) {
  TinyRun run(tiny_model(), tiny_program_options(), {some_batches()[0]}, tiny_trainer_options(60));
  const auto records = run_steps(run, 60);
  EXPECT_NEAR(records.front().loss, std::log(96.0), 0.3);
  EXPECT_LT(records.back().loss, 1.0);
  EXPECT_EQ(records.back().step, 60);
  EXPECT_EQ(records.back().tokens, 60 * 59);
}

TEST(Trainer, SameSeedGivesTheSameRunBitForBit) {
  TinyRun a(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  TinyRun b(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(a.trainer.step_and_finish().loss, b.trainer.step_and_finish().loss);
  EXPECT_EQ(a.weights(), b.weights());
}

TEST(Trainer, RecomputeChangesNeitherLossNorWeights) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    ProgramOptions options = tiny_program_options();
    options.compute = compute;
    expect_recompute_changes_nothing(options);
  }
}

// Trains in one form of the weights, with a batch that repeats; `packs` of the CPU backend included.
TinyRun bf16_run(ProgramOptions options, int64_t steps = 10) {
  options.compute = DType::kBF16;
  options.adamw.seed = 3;
  return {tiny_model(), options, some_batches(), tiny_trainer_options(steps)};
}

TEST(Trainer, ABf16RemainderGivesTheBitsOfAnF32Master) {
  for (const DType residual : {DType::kF32, DType::kBF16}) {
    for (const bool is_tied : {false, true}) {
      ModelConfig config = tiny_model();
      config.tie_word_embeddings = is_tied;
      ProgramOptions options = tiny_program_options();
      options.compute = DType::kBF16;
      options.residual = residual;
      TinyRun reference(config, options, some_batches(), tiny_trainer_options());
      options.master = MasterWeights::kBF16Remainder;
      TinyRun run(config, options, some_batches(), tiny_trainer_options());
      EXPECT_EQ(run.weights(), reference.weights());
      for (int step = 0; step < 8; ++step) {
        const StepRecord expected = reference.trainer.step_and_finish(), record = run.trainer.step_and_finish();
        ASSERT_EQ(record.loss, expected.loss);
        ASSERT_EQ(record.grad_norm, expected.grad_norm);
        ASSERT_EQ(run.weights(), reference.weights());
      }
    }
  }
}

TEST(Trainer, Bf16WeightsMomentsAndGradientsLearnAsF32OnesDo) {
  constexpr int kSteps = 60;
  const auto last_loss = [](const ProgramOptions& options) {
    TinyRun run = bf16_run(options, kSteps);
    return run_steps(run, kSteps).back().loss;
  };
  const double expected = last_loss(tiny_program_options());
  EXPECT_LT(expected, 2.0);
  ProgramOptions options = tiny_program_options();
  options.master = MasterWeights::kBF16;
  EXPECT_NEAR(last_loss(options), expected, 0.1 * expected);
  options.moments = DType::kBF16;
  EXPECT_NEAR(last_loss(options), expected, 0.1 * expected);
  options.gradient = DType::kBF16;
  EXPECT_NEAR(last_loss(options), expected, 0.1 * expected);
}

TEST(Trainer, StochasticRoundingGivesTheSameBitsForTheSameSeedWhateverIsRecomputed) {
  ProgramOptions options = tiny_program_options();
  options.master = MasterWeights::kBF16;
  options.moments = options.gradient = DType::kBF16;
  TinyRun reference = bf16_run(options);
  run_steps(reference, 4);
  options.recompute = Recompute::kBlock;
  TinyRun same = bf16_run(options);
  run_steps(same, 4);
  EXPECT_EQ(same.weights(), reference.weights());
  options.compute = DType::kBF16;
  options.adamw.seed = 4;
  TinyRun other(tiny_model(), options, some_batches(), tiny_trainer_options());
  run_steps(other, 4);
  EXPECT_NE(other.weights(), reference.weights());
}

TEST(Trainer, PackedCopiesMadeOnUseGiveTheBitsOfThoseThatStay) {
  for (const DType compute : {DType::kF32, DType::kBF16}) {
    for (const bool is_tied : {false, true}) {
      ModelConfig config = tiny_model();
      config.tie_word_embeddings = is_tied;
      ProgramOptions options = tiny_program_options();
      options.compute = compute;
      options.accumulates = true;
      TrainerOptions accumulate = tiny_trainer_options();
      accumulate.accumulation = 2;
      TinyRun reference(config, options, some_batches(), accumulate);
      options.packs_on_use = true;
      TinyRun same(config, options, some_batches(), accumulate);
      for (int step = 0; step < 3; ++step)
        EXPECT_EQ(same.trainer.step_and_finish().loss, reference.trainer.step_and_finish().loss);
      EXPECT_EQ(same.weights(), reference.weights());
    }
  }
}

TEST(Trainer, GradientsCarriedInTheArenaGiveTheBitsOfThoseThatStay) {
  for (const DType gradient : {DType::kF32, DType::kBF16}) {
    for (const bool is_tied : {false, true}) {
      ModelConfig config = tiny_model();
      config.tie_word_embeddings = is_tied;
      config.has_qkv_bias = true;
      ProgramOptions options = tiny_program_options();
      options.compute = DType::kBF16;
      options.gradient = gradient;
      options.packs_on_use = true;
      TinyRun reference(config, options, some_batches(), tiny_trainer_options());
      options.carries_gradients = true;
      TinyRun same(config, options, some_batches(), tiny_trainer_options());
      const auto bytes = [](const TinyRun& run) { return run.executor.program().memory->total_bytes(); };
      EXPECT_LT(bytes(same), bytes(reference));
      for (int step = 0; step < 4; ++step) {
        const StepRecord found = same.trainer.step_and_finish();
        const StepRecord expected = reference.trainer.step_and_finish();
        EXPECT_EQ(found.loss, expected.loss);
        EXPECT_EQ(found.grad_norm, expected.grad_norm);
      }
      EXPECT_EQ(same.weights(), reference.weights());
    }
  }
}

// The same tape that a GPU runs, with copies that are done when they return.
TEST(Trainer, OffloadedActivationsChangeNothing) {
  ProgramOptions options = tiny_program_options();
  options.recompute = Recompute::kBlock;
  options.accumulates = true;
  TrainerOptions accumulate = tiny_trainer_options();
  accumulate.accumulation = 2;
  TinyRun reference(tiny_model(), options, some_batches(), accumulate);
  options.offloads_activations = true;
  TinyRun run(tiny_model(), options, some_batches(), accumulate);
  EXPECT_EQ(run.executor.program().memory->host_bytes(), 2 * 64 * 32 * 4);
  for (int step = 0; step < 3; ++step) {
    const StepRecord expected = reference.trainer.step_and_finish(), record = run.trainer.step_and_finish();
    EXPECT_EQ(record.loss, expected.loss);
    EXPECT_EQ(record.grad_norm, expected.grad_norm);
  }
  EXPECT_EQ(run.weights(), reference.weights());
}

TEST(Trainer, AccumulationEqualsTheLargeBatch) {  // report:B10, uneven lengths
  ProgramOptions large = tiny_program_options();
  large.batch = {.num_tokens = 128, .max_documents = 8, .max_length = 32};
  Batch joined = random_batch(large.batch, {}, 96, 0);
  joined.reset(large.batch);
  for (const Batch& part : some_batches()) {
    for (int32_t d = 0; d < part.num_documents; ++d) {
      const auto begin = static_cast<size_t>(part.offsets[static_cast<size_t>(d)]);
      const auto count = static_cast<size_t>(part.offsets[static_cast<size_t>(d) + 1]) - begin;
      joined.append(std::span(part.ids).subspan(begin, count), std::span(part.labels).subspan(begin, count));
    }
  }
  TinyRun whole(tiny_model(), large, {joined}, tiny_trainer_options());

  ProgramOptions small = tiny_program_options();
  small.accumulates = true;
  TrainerOptions accumulate = tiny_trainer_options();
  accumulate.accumulation = 2;
  TinyRun parts(tiny_model(), small, some_batches(), accumulate);

  const StepRecord a = whole.trainer.step_and_finish(), b = parts.trainer.step_and_finish();
  EXPECT_EQ(a.supervised_tokens, b.supervised_tokens);
  EXPECT_NEAR(a.loss, b.loss, 1e-6 * a.loss);
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-6 * a.grad_norm);
  for (size_t p = 0; p < whole.executor.program().params.params.size(); ++p) {
    EXPECT_LT(relative_difference(get_gradient(parts.executor, static_cast<int64_t>(p)),
                                  get_gradient(whole.executor, static_cast<int64_t>(p))),
              1e-5)
        << whole.executor.program().params.params[p].name;
  }
}

TEST(Trainer, TheSizeOfALogitsChunkDoesNotChangeTheRun) {  // report:B27
  std::vector<double> losses, norms;
  for (const int64_t chunk : {1, 7, 24, 64}) {
    ProgramOptions options = tiny_program_options();
    options.head_chunk_rows = chunk;
    TinyRun run(tiny_model(), options, some_batches(), tiny_trainer_options());
    const StepRecord record = run.trainer.step_and_finish();
    losses.push_back(record.loss);
    norms.push_back(record.grad_norm);
  }
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], losses[0], 1e-6 * losses[0]);
    EXPECT_NEAR(norms[i], norms[0], 1e-5 * norms[0]);
  }
}

// Our own kernels give the same bits for any thread count (tests/ops); oneDNN's AVX2 matmuls split small shapes by the
// number of threads, so the promise for a whole step is a limit.
TEST(Trainer, ThreadCountsAgreeWithinRounding) {  // fault:C7
  TinyRun one(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options(), {.threads = 1});
  const auto expected = run_steps(one, 3);
  for (const int threads : {2, 4}) {
    TinyRun run(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options(), {.threads = threads});
    const auto records = run_steps(run, 3);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(records[i].loss, expected[i].loss, 2e-6 * expected[i].loss) << threads;
    EXPECT_LT(relative_difference(run.weights(), one.weights()), 1e-4) << threads;
  }
}

TEST(Trainer, AMaskedMicroBatchAmongOthersContributesNothing) {  // report:B12, fault:C11
  std::vector<Batch> batches = some_batches();
  batches[1].labels.assign(batches[1].labels.size(), op::kIgnoredLabel);
  ProgramOptions options = tiny_program_options();
  options.accumulates = true;
  TrainerOptions accumulate = tiny_trainer_options();
  accumulate.accumulation = 2;
  TinyRun both(tiny_model(), options, batches, accumulate);
  TinyRun alone(tiny_model(), options, {batches[0]}, tiny_trainer_options());
  const StepRecord a = both.trainer.step_and_finish(), b = alone.trainer.step_and_finish();
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-7 * b.grad_norm);
}

TEST(Trainer, AStepWithoutSupervisedTokensIsSkippedAndCountedUntilTheLimit) {  // report:B12
  std::vector<Batch> batches = {some_batches()[0]};
  batches[0].labels.assign(batches[0].labels.size(), op::kIgnoredLabel);
  TrainerOptions options = tiny_trainer_options();
  options.nan_limit = 3;
  TinyRun run(tiny_model(), tiny_program_options(), batches, options);
  const std::vector<float> before = run.weights();
  const StepRecord record = run.trainer.step_and_finish();
  EXPECT_TRUE(record.skipped);
  EXPECT_EQ(record.loss, 0.0);
  EXPECT_EQ(record.skipped_total, 1);
  EXPECT_EQ(run.weights(), before);
  run.trainer.step_and_finish();
  EXPECT_THROW(run.trainer.step_and_finish(), NumericError);
}

TEST(Trainer, ANanInAWeightSkipsTheStepAndLeavesEverythingElse) {  // fault:C1, one rank
  TinyRun run(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  run.trainer.step_and_finish();
  std::vector<float> norm = get_parameter(run.executor, 1);
  const float kept = norm[0];
  norm[0] = std::numeric_limits<float>::quiet_NaN();
  set_parameter(run.executor, 1, norm);
  const std::vector<float> embedding = get_parameter(run.executor, 0);
  EXPECT_TRUE(run.trainer.step_and_finish().skipped);
  EXPECT_EQ(get_parameter(run.executor, 0), embedding);
  norm[0] = kept;
  set_parameter(run.executor, 1, norm);
  EXPECT_FALSE(run.trainer.step_and_finish().skipped);
  EXPECT_EQ(run.executor.read_state().optimizer_steps, 2);
}

TEST(Trainer, ASpikeBeyondTheRecentMedianIsSkipped) {  // fault:C2's detection
  TrainerOptions options = tiny_trainer_options(100);
  options.spike_factor = 3.0;
  TinyRun run(tiny_model(), tiny_program_options(), some_batches(), options);
  for (const StepRecord& record : run_steps(run, 33)) EXPECT_FALSE(record.skipped);
  Trainer::Progress progress = run.trainer.progress();
  for (double& norm : progress.recent_norms) norm *= 1e-3;
  run.trainer.restore(progress);
  EXPECT_TRUE(run.trainer.step_and_finish().skipped);
}

TEST(Trainer, CountersGoOnPastTwoToThe31) {  // fault:C15
  constexpr int64_t kSteps = (int64_t{1} << 31) - 1;
  constexpr int64_t kTokens = int64_t{1} << 40;
  TinyRun run(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options(int64_t{1} << 33));
  run.trainer.restore({.steps_done = kSteps, .tokens_done = kTokens, .optimizer_steps = kSteps});
  StepRecord record;
  for (int step = 1; step <= 3; ++step) record = run.trainer.step_and_finish();
  EXPECT_EQ(record.step, kSteps + 3);
  EXPECT_GT(record.tokens, kTokens);
  EXPECT_LT(record.tokens, kTokens + 1000);
  EXPECT_FALSE(record.skipped);
  EXPECT_EQ(run.trainer.progress().optimizer_steps, kSteps + 3);
}

TEST(Trainer, TokenIdsOutsideTheVocabularyStopTheRunBeforeAnyUpdate) {  // fault:D18
  std::vector<Batch> batches = some_batches();
  batches[0].ids[3] = 96;
  TinyRun run(tiny_model(), tiny_program_options(), batches, tiny_trainer_options());
  const std::vector<float> before = run.weights();
  EXPECT_THROW(run.trainer.step_and_finish(), DataError);
  EXPECT_EQ(run.weights(), before);
  batches = some_batches();
  batches[0].ids[3] = -1;
  TinyRun negative(tiny_model(), tiny_program_options(), batches, tiny_trainer_options());
  EXPECT_THROW(negative.trainer.step_and_finish(), DataError);
}

TEST(Trainer, ContinuingFromSavedStateGivesTheSameBitsAsNeverStopping) {  // fault:C5
  TinyRun whole(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  const auto expected = run_steps(whole, 6);
  for (int stop = 1; stop < 6; ++stop) {
    TinyRun first(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
    run_steps(first, stop);
    TinyRun second(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
    for (const TensorId id : {first.executor.program().flat.master, first.executor.program().flat.first_moment,
                              first.executor.program().flat.second_moment}) {
      std::vector<float> values(static_cast<size_t>(first.executor.program().params.flat_size));
      const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
      first.executor.read(id, values.data(), bytes);
      second.executor.write(id, values.data(), bytes);
    }
    pack_weights(second.executor);
    second.trainer.restore(first.trainer.progress());
    for (int i = stop; i < 6; ++i)
      EXPECT_EQ(second.trainer.step_and_finish().loss, expected[static_cast<size_t>(i)].loss);
    EXPECT_EQ(second.weights(), whole.weights());
  }
}

TEST(Trainer, EvaluationChangesNothing) {
  const SyntheticSource source(3, 96, {.num_tokens = 64, .max_documents = 2, .max_length = 32, .uniform = true});
  TinyRun with(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  TinyRun without(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  run_steps(with, 2);
  run_steps(without, 2);
  const EvalResult result = with.trainer.evaluate(source, 3).value();
  EXPECT_EQ(result.supervised_tokens, 192);
  EXPECT_NEAR(result.loss, std::log(96.0), 0.4);
  EXPECT_EQ(with.trainer.step_and_finish().loss, without.trainer.step_and_finish().loss);
  EXPECT_EQ(with.weights(), without.weights());
}

/// A tiny run whose device is behind: outcomes are there only when somebody waits for them.
struct LateRun {
  test::FaultyBackend* backend = new test::FaultyBackend(make_cpu_backend({}));
  TinyRun run;

  LateRun(std::vector<Batch> batches, const TrainerOptions& options)
      : run(tiny_model(), tiny_program_options(), std::move(batches), options, std::unique_ptr<Backend>(backend)) {
    backend->set_faults({.reads_late = true});
  }
};

void expect_equal(const StepRecord& a, const StepRecord& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_EQ(a.lr, b.lr);
  EXPECT_EQ(a.skipped, b.skipped);
  EXPECT_EQ(a.skipped_total, b.skipped_total);
}

TEST(Trainer, ADeviceThatRunsBehindGivesTheSameRecordsOneStepLater) {
  TinyRun prompt(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  LateRun late(some_batches(), tiny_trainer_options());
  EXPECT_FALSE(late.run.trainer.step().has_value());
  for (int step = 1; step < 6; ++step) {
    const auto record = late.run.trainer.step();
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(late.run.trainer.steps_done(), step + 1);
    expect_equal(*record, prompt.trainer.step().value());
    EXPECT_GT(record->seconds, 0.0);
  }
  expect_equal(late.run.trainer.finish().value(), prompt.trainer.step().value());
  EXPECT_FALSE(late.run.trainer.finish().has_value());
  EXPECT_EQ(late.run.weights(), prompt.weights());
}

TEST(Trainer, WhatASpikeIsComparedWithDependsNeitherOnTheDeviceNorOnWaits) {
  TrainerOptions options = tiny_trainer_options(100);
  options.spike_factor = 1.0001;  // many an ordinary step is one
  std::vector<Batch> batches;
  for (uint64_t i = 0; i < 100; ++i) batches.push_back(random_batch(tiny_program_options().batch, {20, 7, 32}, 96, i));
  TinyRun prompt(tiny_model(), tiny_program_options(), batches, options);
  LateRun late(batches, options), mixed(batches, options);
  std::vector<StepRecord> expected, seen, seen_mixed;
  const auto keep = [](std::vector<StepRecord>& records, const std::optional<StepRecord>& record) {
    if (record) records.push_back(*record);
  };
  for (int step = 0; step < 60; ++step) {
    keep(expected, prompt.trainer.step());
    keep(seen, late.run.trainer.step());
    keep(seen_mixed, mixed.run.trainer.step());
    if (step % 7 == 3) keep(seen_mixed, mixed.run.trainer.finish());
  }
  keep(seen, late.run.trainer.finish());
  keep(seen_mixed, mixed.run.trainer.finish());
  ASSERT_EQ(seen.size(), 60u);
  ASSERT_EQ(seen_mixed.size(), 60u);
  int64_t skipped = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_equal(seen[i], expected[i]);
    expect_equal(seen_mixed[i], expected[i]);
    skipped += expected[i].skipped ? 1 : 0;
  }
  EXPECT_GT(skipped, 3);
  EXPECT_LT(skipped, 57);
}

TEST(Trainer, ADeviceThatRunsBehindStopsOneStepAfterTheLimit) {
  std::vector<Batch> batches = {some_batches()[0]};
  batches[0].labels.assign(batches[0].labels.size(), op::kIgnoredLabel);
  TrainerOptions options = tiny_trainer_options();
  options.nan_limit = 2;
  LateRun late(batches, options);
  EXPECT_FALSE(late.run.trainer.step().has_value());
  EXPECT_TRUE(late.run.trainer.step()->skipped);
  EXPECT_THROW(late.run.trainer.step(), NumericError);
}

TEST(Trainer, BadTokensStopADeviceThatRunsBehind) {  // fault:D18
  std::vector<Batch> batches = some_batches();
  batches[0].ids[3] = 96;
  LateRun late(batches, tiny_trainer_options());
  EXPECT_FALSE(late.run.trainer.step().has_value());
  EXPECT_THROW(late.run.trainer.step(), DataError);
}

TEST(Trainer, NothingLooksAtAModelThatIsBeingChanged) {
  LateRun late(some_batches(), tiny_trainer_options());
  late.run.trainer.step();
  EXPECT_THROW(static_cast<void>(late.run.trainer.progress()), InternalError);
  EXPECT_THROW(late.run.trainer.restore({}), InternalError);
  EXPECT_THROW(late.run.trainer.step_and_finish(), InternalError);
  const SyntheticSource source(3, 96, {.num_tokens = 64, .max_documents = 2, .max_length = 32, .uniform = true});
  EXPECT_THROW(late.run.trainer.evaluate(source, 1), InternalError);
  late.run.trainer.finish();
  EXPECT_EQ(late.run.trainer.progress().steps_done, 1);
}

TEST(Trainer, ADeviceErrorThatIsNoticedWithTheOutcomeSaysWhatWasIssued) {  // fault:B15
  LateRun late(some_batches(), tiny_trainer_options());
  late.backend->set_faults({.fail_late_at = 5, .reads_late = true});
  EXPECT_FALSE(late.run.trainer.finish().has_value());
  const std::string text = error_text<DeviceError>([&] {
    late.run.trainer.step();
    late.run.trainer.step();
  });
  EXPECT_NE(text.find("issued last"), std::string::npos) << text;
  EXPECT_EQ(late.backend->planted(), 1);
}

TEST(Trainer, AllocatesExactlyWhatThePlanSays) {
  TinyRun run(tiny_model(), tiny_program_options(), some_batches(), tiny_trainer_options());
  EXPECT_EQ(run.executor.allocated_bytes(), run.executor.program().memory->total_bytes());
}

}  // namespace
}  // namespace litespark
