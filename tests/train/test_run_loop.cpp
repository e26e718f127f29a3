// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"
#include "data/synthetic_source.h"
#include "support/faulty_backend.h"
#include "support/temporary_folder.h"
#include "train/run_loop.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct RunLoopTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path folder = scratch.path() / "run_loop_test";
  ModelConfig config = tiny_model();
  ParamTable params = make_param_table(config);
  CheckpointContext context{.config = config, .params = params, .identity = {{"seed", "1"}}};
  TinyRun run{config,
              tiny_program_options(),
              {random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
              tiny_trainer_options(40)};
  SyntheticSource eval_source{3, 96, {.num_tokens = 64, .max_documents = 2, .max_length = 32, .uniform = true}};
  std::vector<int64_t> steps, evals;
  RunHooks hooks{.on_step = [this](const StepRecord& record) { steps.push_back(record.step); },
                 .on_eval = [this](int64_t step, const EvalResult&) { evals.push_back(step); }};

  void SetUp() override { fs::remove_all(folder); }
};

TEST_F(RunLoopTest, StepsEvaluatesAndSavesWhenDue) {
  CheckpointStore store(folder);
  CheckpointSaver saver(run.executor, store, context, {.retention = {.keep_last = 100}});
  EXPECT_EQ(run_training(run.trainer, &saver, &eval_source,
                         {.steps = 10, .eval_every = 3, .eval_batches = 2, .save_every = 4}, hooks),
            RunEnd::kFinished);
  EXPECT_EQ(steps.size(), 10u);
  EXPECT_EQ(evals, (std::vector<int64_t>{3, 6, 9}));
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{4, 8, 10}));
}

TEST_F(RunLoopTest, TellsOfEveryStepAndEverySave) {
  std::string events;
  hooks.before_step = [&] { events += "<"; };
  hooks.after_step = [&] { events += ">"; };
  hooks.on_save = [&](int64_t step, double) { events += std::to_string(step); };
  CheckpointStore store(folder);
  CheckpointSaver saver(run.executor, store, context, {});
  run_training(run.trainer, &saver, nullptr, {.steps = 5, .save_every = 2}, hooks);
  EXPECT_EQ(events, "<><>2<><>4<>55");
}

TEST_F(RunLoopTest, SamplesWhenDueUntilSomebodyAsksToStop) {
  std::vector<int64_t> samples;
  hooks.sample = [&](int64_t step) { samples.push_back(step); };
  hooks.should_stop = [&] { return samples.size() == 3; };
  EXPECT_EQ(run_training(run.trainer, nullptr, nullptr, {.steps = 20, .sample_every = 4}, hooks), RunEnd::kStopped);
  EXPECT_EQ(samples, (std::vector<int64_t>{4, 8, 12}));
  EXPECT_EQ(steps.back(), 12);
}

TEST_F(RunLoopTest, AStopRequestSavesTheStepItCameIn) {  // fault:B1, report:B38
  for (const bool in_evaluation : {false, true}) {
    SetUp();
    steps.clear();
    TinyRun fresh(config, tiny_program_options(), {random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
                  tiny_trainer_options(40));
    CheckpointStore store(folder);
    CheckpointSaver saver(fresh.executor, store, context, {});
    int asked = 0;
    hooks.should_stop = [&] { return ++asked >= (in_evaluation ? 5 : 3); };
    EXPECT_EQ(run_training(fresh.trainer, &saver, in_evaluation ? &eval_source : nullptr,
                           {.steps = 40, .eval_every = 3, .eval_batches = 50}, hooks),
              RunEnd::kStopped);
    EXPECT_EQ(steps.back(), 3);
    EXPECT_EQ(store.newest(), 3);
  }
}

// With large accumulation on a CPU the rest of a step takes minutes.
TEST_F(RunLoopTest, AStopRequestDropsTheStepItCameInBetweenMicroBatchesAndTheResumeGivesTheSameBits) {
  const auto make = [&](bool is_late) {
    TrainerOptions options = tiny_trainer_options(6);
    options.accumulation = 4;
    ProgramOptions program = tiny_program_options();
    program.accumulates = true;
    auto backend = std::make_unique<test::FaultyBackend>(make_cpu_backend({}));
    backend->set_faults({.reads_late = is_late});
    return std::make_unique<TinyRun>(config, program, some_batches(), options, std::move(backend));
  };
  const auto whole = make(false);
  run_training(whole->trainer, nullptr, nullptr, {.steps = 6}, hooks);
  for (const bool is_late : {false, true}) {
    for (const int asks_before : {2, 5, 10}) {  // four a step, of which the last comes behind it
      SetUp();
      steps.clear();
      const auto cut = make(is_late);
      CheckpointStore store(folder);
      CheckpointSaver saver(cut->executor, store, context, {.is_async = asks_before == 10});
      int asked = 0;
      hooks.should_stop = [&] { return ++asked > asks_before; };
      EXPECT_EQ(run_training(cut->trainer, &saver, nullptr, {.steps = 6, .save_every = is_late ? 0 : 1}, hooks),
                RunEnd::kStopped);
      const int64_t done = asks_before / 4;
      EXPECT_EQ(asked, asks_before + 1);
      EXPECT_EQ(static_cast<int64_t>(steps.size()), done);
      ASSERT_EQ(store.newest(), done);

      hooks.should_stop = [] { return false; };
      const auto rest = make(is_late);
      rest->trainer.restore(read_checkpoint(store.path_of(done), context, rest->executor).progress);
      run_training(rest->trainer, nullptr, nullptr, {.steps = 6}, hooks);
      EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
      EXPECT_EQ(rest->weights(), whole->weights());
      EXPECT_EQ(rest->trainer.tokens_done(), whole->trainer.tokens_done());
    }
  }
}

// Retention would otherwise push out every checkpoint from before the run went wrong.
TEST_F(RunLoopTest, WhileNumbersAreNotFiniteNothingIsSavedAndARunThatEndsSoFails) {
  CheckpointStore store(folder);
  CheckpointSaver saver(run.executor, store, context, {.retention = {.keep_last = 2}});
  hooks.on_step = [&](const StepRecord& record) {
    if (record.step != 4) return;
    std::vector<float> weight = get_parameter(run.executor, 1);
    weight[0] = std::numeric_limits<float>::quiet_NaN();
    set_parameter(run.executor, 1, weight);
    pack_weights(run.executor);
  };
  EXPECT_THROW(run_training(run.trainer, &saver, nullptr, {.steps = 10, .save_every = 1}, hooks), NumericError);
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{3, 4}));
}

TEST_F(RunLoopTest, ADeviceThatRunsBehindReportsEveryStepBeforeWhatLooksAtTheModel) {
  auto behind = std::make_unique<test::FaultyBackend>(make_cpu_backend({}));
  behind->set_faults({.reads_late = true});
  TinyRun late(config, tiny_program_options(), {random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
               tiny_trainer_options(40), std::move(behind));
  CheckpointStore store(folder);
  CheckpointSaver saver(late.executor, store, context, {.retention = {.keep_last = 100}});
  hooks.on_eval = [this](int64_t step, const EvalResult&) { EXPECT_EQ(steps.back(), step); };
  hooks.totals = [&] {
    EXPECT_EQ(steps.back(), late.trainer.steps_done());
    return RunTotals{};
  };
  EXPECT_EQ(run_training(late.trainer, &saver, &eval_source,
                         {.steps = 10, .eval_every = 3, .eval_batches = 2, .save_every = 4}, hooks),
            RunEnd::kFinished);
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(store.steps(), (std::vector<int64_t>{4, 8, 10}));
}

TEST_F(RunLoopTest, RunsWithoutSaverOrEvaluation) {
  EXPECT_EQ(run_training(run.trainer, nullptr, nullptr, {.steps = 2, .eval_every = 1, .save_every = 1}, hooks),
            RunEnd::kFinished);
  EXPECT_EQ(steps.size(), 2u);
  EXPECT_TRUE(evals.empty());
}

}  // namespace
}  // namespace litespark
