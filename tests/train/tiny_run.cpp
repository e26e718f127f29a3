// SPDX-License-Identifier: Apache-2.0
#include "train/tiny_run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/rng.h"

namespace litespark {

Batch random_batch(const BatchShape& shape, const std::vector<int64_t>& lengths, int64_t vocab_size, uint64_t seed) {
  const RandomStream random(seed, 99);
  Batch batch;
  batch.reset(shape);
  uint64_t draw = 0;
  for (const int64_t length : lengths) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) id = static_cast<int32_t>(random.below(draw++, static_cast<uint64_t>(vocab_size)));
    batch.append_shifted(ids, op::kIgnoredLabel);
  }
  return batch;
}

std::vector<Batch> some_batches() {
  const BatchShape shape = tiny_program_options().batch;
  return {random_batch(shape, {20, 7, 32}, 96, 1), random_batch(shape, {1, 5, 30, 11}, 96, 2)};
}

std::vector<StepRecord> run_steps(TinyRun& run, int steps) {
  std::vector<StepRecord> records;
  for (int i = 0; i < steps; ++i) records.push_back(run.trainer.step_and_finish());
  return records;
}

void expect_learns_as_bf16(const std::vector<StepRecord>& records, const std::vector<StepRecord>& bf16) {
  ASSERT_EQ(records.size(), bf16.size());
  double difference = 0;
  for (size_t i = 0; i < records.size(); ++i) difference += std::abs(records[i].loss - bf16[i].loss);
  difference /= static_cast<double>(records.size());
  EXPECT_LT(difference, 0.05);
  EXPECT_GT(difference, 0.0) << "that is bf16";
  EXPECT_LT(records.back().loss, 0.5 * records.front().loss);
  ASSERT_TRUE(records.back().fp8.has_value());
  EXPECT_EQ(records.back().fp8->overflows, 0);
  EXPECT_LT(records.back().fp8->inputs_flushed, 0.05);
}

void expect_recompute_changes_nothing(
    ProgramOptions options, const std::function<void(const StepRecord& found, const StepRecord& expected)>& compare) {
  TinyRun reference(tiny_model(), options, some_batches(), tiny_trainer_options());
  const auto expected = run_steps(reference, 3);
  for (const Recompute recompute :
       {Recompute::kNormAct, Recompute::kAttention, Recompute::kKeepAttention, Recompute::kBlock, Recompute::kEveryK}) {
    options.recompute = recompute;
    options.recompute_every = 2;
    TinyRun run(tiny_model(), options, some_batches(), tiny_trainer_options());
    const auto records = run_steps(run, 3);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(records[i].loss, expected[i].loss);
      EXPECT_EQ(records[i].grad_norm, expected[i].grad_norm);
      compare(records[i], expected[i]);
    }
    EXPECT_EQ(run.weights(), reference.weights());
  }
}

}  // namespace litespark
