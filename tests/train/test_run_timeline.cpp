// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/temporary_folder.h"
#include "train/run_timeline.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

struct RunTimelineTest : testing::Test {
  const test::TemporaryFolder folder;
  TinyRun run{tiny_model(),
              tiny_program_options(),
              {random_batch(tiny_program_options().batch, {20, 7, 32}, 96, 1)},
              tiny_trainer_options(20)};

  void train(RunTimeline& timeline, int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      timeline.before_step(run.trainer.steps_done() + 1);
      const StepRecord record = run.trainer.step_and_finish();
      timeline.after_step(record.step);
      timeline.add(record);
    }
  }
  bool exists(const char* name) const { return std::filesystem::exists(folder.path() / name); }
};

TEST_F(RunTimelineTest, LeavesATimelineAndTheTraceOfOneStep) {
  RunTimeline timeline(run.executor, folder.path(), 10);
  train(timeline, 4);
  EXPECT_FALSE(exists("trace.json"));
  train(timeline, 2);
  EXPECT_TRUE(contains(timeline.finish(), "mean of 1 sampled"));
  EXPECT_TRUE(contains(test::file_text(folder.path() / "trace.json"), "\"name\": \"step 5\""));
  const std::string json = test::file_text(folder.path() / "timeline.json");
  EXPECT_TRUE(contains(json, "\"sampled_steps\": 1"));
  EXPECT_TRUE(contains(json, "backward.attention"));
  EXPECT_FALSE(run.executor.is_observed());
}

TEST_F(RunTimelineTest, KeepsNothingOfAStepThatWasDropped) {
  RunTimeline timeline(run.executor, folder.path(), 1);
  train(timeline, 4);
  timeline.before_step(5);
  ASSERT_TRUE(run.executor.is_observed());
  timeline.after_step(4);
  EXPECT_FALSE(run.executor.is_observed());
  EXPECT_FALSE(exists("trace.json"));
  timeline.finish();
  EXPECT_TRUE(contains(test::file_text(folder.path() / "timeline.json"), "\"sampled_steps\": 0"));
}

TEST_F(RunTimelineTest, KeepsTheRunsRowsWithoutSamples) {
  RunTimeline timeline(run.executor, folder.path(), 0);
  train(timeline, 6);
  timeline.add_eval({.seconds = 2.0});
  timeline.add_sample(1.0);
  timeline.add_save(3.0);
  timeline.finish();
  EXPECT_FALSE(exists("trace.json"));
  const std::string json = test::file_text(folder.path() / "timeline.json");
  EXPECT_TRUE(contains(json, "\"eval_seconds\": 2.0, \"sample_seconds\": 1.0, \"checkpoint_seconds\": 3.0"));
}

}  // namespace
}  // namespace litespark
