// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "train/step_timeline.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

/// A device on which every mark stands a second after the one before.
class CountingTimer final : public DeviceTimer {
 public:
  void mark() override { ++marks_; }
  std::vector<double> take() override {
    std::vector<double> seconds;
    for (int i = 0; i < marks_; ++i) seconds.push_back(i);
    marks_ = 0;
    return seconds;
  }

 private:
  int marks_ = 0;
};

SampledStep observed_step(TinyRun& run) {
  StepTimeline timeline(std::make_unique<CountingTimer>());
  run.executor.set_observer(&timeline);
  timeline.begin();
  run.trainer.step_and_finish();
  SampledStep sample = timeline.end(1);
  run.executor.set_observer(nullptr);
  return sample;
}

TinyRun tiny_run(Recompute recompute) {
  ProgramOptions options = tiny_program_options();
  options.recompute = recompute;
  return {tiny_model(), options, {random_batch(options.batch, {20, 7, 32}, 96, 1)}, tiny_trainer_options()};
}

std::set<std::string> kinds(const SampledStep& sample) {
  std::set<std::string> result;
  for (const TimeSpan& span : sample.spans) result.emplace(scope_kind(span.scope));
  return result;
}

TEST(StepTimeline, EveryOpOfAStepIsASpanAndTheHostsWaitsAreToo) {
  TinyRun run = tiny_run(Recompute::kNone);
  const SampledStep sample = observed_step(run);
  size_t num_ops = 0;
  for (const Phase phase : {Phase::kTrainFirst, Phase::kOptimizer, Phase::kPack}) {
    num_ops += run.executor.program().tape(phase)->entries().size();
  }
  size_t num_op_spans = 0;
  for (const TimeSpan& span : sample.spans) num_op_spans += span.op.empty() ? 0 : 1;
  EXPECT_EQ(num_op_spans, num_ops);
  EXPECT_EQ(kinds(sample), (std::set<std::string>{"backward", "data", "forward", "optimizer", "other"}));
}

TEST(StepTimeline, SpansFollowEachOtherWithoutGaps) {
  TinyRun run = tiny_run(Recompute::kNone);
  const SampledStep sample = observed_step(run);
  EXPECT_EQ(sample.spans.front().begin_seconds, 0.0);
  for (size_t i = 1; i < sample.spans.size(); ++i) {
    EXPECT_EQ(sample.spans[i].begin_seconds, sample.spans[i - 1].end_seconds);
  }
  EXPECT_EQ(sample.seconds(), static_cast<double>(sample.spans.size()));
}

TEST(StepTimeline, WorkDoneASecondTimeHasAKindOfItsOwn) {
  TinyRun run = tiny_run(Recompute::kBlock);
  EXPECT_TRUE(kinds(observed_step(run)).contains("recompute"));
}

TEST(StepTimeline, ObservingChangesNoBit) {
  TinyRun plain = tiny_run(Recompute::kNone);
  TinyRun watched = tiny_run(Recompute::kNone);
  plain.trainer.step_and_finish();
  observed_step(watched);
  EXPECT_EQ(plain.weights(), watched.weights());
}

}  // namespace
}  // namespace litespark
