// SPDX-License-Identifier: Apache-2.0
// What the planner counts before a run against what a run is seen to do.
#include <gtest/gtest.h>

#include "plan/tape_counts.h"
#include "train/tiny_run.h"

namespace litespark {
namespace {

/// Counts each op as it runs.
class CountingObserver final : public OpObserver {
 public:
  explicit CountingObserver(const TensorTable& tensors) : counter_(tensors) {}
  void before(const TapeEntry&) override {}
  void after(const TapeEntry& entry) override {
    if (entry.scope.starts_with("forward.") || entry.scope.starts_with("backward.")) counter_.add(entry);
  }
  const WorkCounter& counter() const { return counter_; }

 private:
  WorkCounter counter_;
};

TEST(CountedWork, AStepDoesExactlyWhatThePlanCounts) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kNormAct, Recompute::kBlock, Recompute::kEveryK}) {
    ProgramOptions options = tiny_program_options();
    options.recompute = recompute;
    options.recompute_every = 2;
    TinyRun run(tiny_model(), options, {random_batch(options.batch, {20, 7, 32}, 96, 1)}, tiny_trainer_options());
    CountingObserver observer(run.executor.program().tensors);
    run.executor.set_observer(&observer);
    run.trainer.step_and_finish();
    run.executor.set_observer(nullptr);
    const WorkCounter planned = count_micro_batch(run.executor.program());
    ASSERT_EQ(observer.counter().components().size(), planned.components().size());
    for (const auto& [name, counts] : planned.components()) {
      const ComponentCounts& seen = observer.counter().components().at(name);
      EXPECT_EQ(seen.forward_flops, counts.forward_flops) << name;
      EXPECT_EQ(seen.backward_flops, counts.backward_flops) << name;
      EXPECT_EQ(seen.recomputed_flops, counts.recomputed_flops) << name;
      EXPECT_EQ(seen.bytes, counts.bytes) << name;
    }
  }
}

}  // namespace
}  // namespace litespark
