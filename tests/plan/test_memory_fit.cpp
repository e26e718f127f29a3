// SPDX-License-Identifier: Apache-2.0
// What fits is found, is really planned that small, and keeps the tokens of a step.
#include <gtest/gtest.h>

#include "plan/memory_fit.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"

namespace litespark {
namespace {

class MemoryFit : public testing::Test {
 protected:
  MemoryFit() {
    config_.data = {.source = DataSource::kSynthetic, .seq_len = 64};
    config_.train.micro_batch = 8;
    config_.precision.compute = DType::kF32;
    config_.model.vocab_size = 64;
    config_.model.hidden_size = 64;
    config_.model.intermediate_size = 160;
    config_.model.num_hidden_layers = 8;
    config_.model.num_attention_heads = 4;
    model_ = scratch_model_config(config_);
  }
  MemoryQuestion question(int64_t budget) const { return {config_, model_, sizes_, budget}; }
  int64_t bytes_with(Recompute recompute) const {
    RunConfig changed = config_;
    changed.memory.recompute = recompute;
    return planned_bytes({changed, model_, sizes_});
  }

  RunConfig config_;
  ModelConfig model_;
  PlainSizes sizes_;
};

TEST_F(MemoryFit, WhatFitsStaysAsItIs) {
  const auto run = fit_by_recompute(question(planned_bytes(question(0))));
  ASSERT_TRUE(run);
  EXPECT_EQ(run->config.memory.recompute, Recompute::kNone);
  EXPECT_EQ(run->config.train.micro_batch, 8);
  EXPECT_EQ(run->total_bytes, bytes_with(Recompute::kNone));
}

TEST_F(MemoryFit, TheCheapestRecomputeThatFitsIsTaken) {
  const auto just_norm_act = fit_by_recompute(question(bytes_with(Recompute::kNormAct)));
  ASSERT_TRUE(just_norm_act);
  EXPECT_EQ(just_norm_act->config.memory.recompute, Recompute::kNormAct);
  const auto block = fit_by_recompute(question(bytes_with(Recompute::kBlock)));
  ASSERT_TRUE(block);
  EXPECT_EQ(block->config.memory.recompute, Recompute::kBlock);
  EXPECT_EQ(block->config.train.micro_batch, 8);
}

TEST_F(MemoryFit, AStrongerChoiceOfTheUserIsNeverWeakened) {
  config_.memory.recompute = Recompute::kBlock;
  const auto run = fit_by_recompute(question(int64_t{1} << 40));
  ASSERT_TRUE(run);
  EXPECT_EQ(run->config.memory.recompute, Recompute::kBlock);
}

TEST_F(MemoryFit, SmallerMicroBatchesKeepTheTokensOfAStep) {
  RunConfig half = config_;
  half.train.micro_batch = 4;
  half.train.accumulation = 2;
  half.memory.recompute = Recompute::kBlock;
  const int64_t budget = planned_bytes({half, model_, sizes_});
  EXPECT_FALSE(fit_by_recompute(question(budget)));
  const auto run = fit_by_any_means(question(budget));
  ASSERT_TRUE(run);
  EXPECT_EQ(run->config.tokens_per_step(), config_.tokens_per_step());
  EXPECT_LE(run->total_bytes, budget);
  EXPECT_EQ(planned_bytes({run->config, model_, sizes_}), run->total_bytes);
  const std::string advice = fitting_advice(question(budget));
  EXPECT_TRUE(contains(advice, "train.micro_batch = 4 with train.accumulation = 2"));
  EXPECT_TRUE(contains(advice, "would fit, with "));
}

TEST_F(MemoryFit, NoProgramIsMadeOfMicroBatchesWhoseTokensAloneDoNotFit) {
  struct CountingSizes final : PlainSizes {
    int64_t preferred_head_chunk_rows(int64_t vocab_size) const override {
      ++programs;
      return PlainSizes::preferred_head_chunk_rows(vocab_size);
    }
    mutable int programs = 0;
  };
  const CountingSizes sizes;
  const int64_t budget = 3 * bytes_with(Recompute::kNone);
  config_.train.micro_batch = 0;
  config_.train.accumulation = 1 << 20;
  const std::vector<FittingRun> runs = fitting_micro_batches({config_, model_, sizes, budget});
  ASSERT_FALSE(runs.empty());
  EXPECT_GE(runs.front().config.train.micro_batch, 8);
  const int counted = sizes.programs;
  EXPECT_LT(counted, 70);
  config_.train.micro_batch = 1 << 20;
  config_.train.accumulation = 1;
  EXPECT_TRUE(contains(fitting_advice({config_, model_, sizes, budget}), " would fit, with "));
  EXPECT_LT(sizes.programs - counted, 70);
}

TEST_F(MemoryFit, AnOpenMicroBatchTakesTheWholeStepWhereItFits) {
  config_.train.micro_batch = 0;
  config_.train.accumulation = 12;
  const auto runs = fitting_micro_batches(question(int64_t{1} << 40));
  ASSERT_EQ(runs.size(), 6U);
  EXPECT_EQ(runs.front().config.train.micro_batch, 12);
  EXPECT_EQ(runs.front().config.train.accumulation, 1);
  EXPECT_EQ(runs.front().config.memory.recompute, Recompute::kNone);
  for (size_t i = 1; i < runs.size(); ++i) EXPECT_GE(runs[i].step_seconds, runs[i - 1].step_seconds);
}

TEST_F(MemoryFit, AnOpenMicroBatchIsTheLargestThatFitsAndKeepsTheTokensOfAStep) {
  RunConfig six = config_;
  six.train.micro_batch = 6;
  six.train.accumulation = 2;
  const int64_t budget = planned_bytes({six, model_, sizes_});
  config_.train.micro_batch = 0;
  config_.train.accumulation = 12;
  const int64_t tokens = config_.tokens_per_step();
  const auto runs = fitting_micro_batches(question(budget));
  ASSERT_FALSE(runs.empty());
  for (const FittingRun& run : runs) {
    EXPECT_LE(run.total_bytes, budget);
    EXPECT_EQ(planned_bytes({run.config, model_, sizes_}), run.total_bytes);
    EXPECT_EQ(run.config.tokens_per_step(), tokens);
    if (run.config.memory.recompute == Recompute::kNone) {
      EXPECT_EQ(run.config.train.micro_batch, 6);
    }
    if (run.config.memory.recompute == Recompute::kBlock) {
      EXPECT_EQ(run.config.train.micro_batch, 12);
    }
  }
  const std::string text = choice_text(runs, budget);
  EXPECT_TRUE(contains(text, "train.micro_batch = "));
  EXPECT_TRUE(contains(text, "slower by prediction"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(MemoryFit, ABf16GradientIsNeverSplitOverMicroBatches) {
  config_.precision.compute = config_.precision.gradient = DType::kBF16;
  config_.train.micro_batch = 0;
  config_.train.accumulation = 4;
  for (const FittingRun& run : fitting_micro_batches(question(int64_t{1} << 40))) {
    EXPECT_EQ(run.config.train.accumulation, 1);
  }
  EXPECT_TRUE(fitting_micro_batches(question(1000)).empty());
  EXPECT_TRUE(contains(fitting_advice(question(1000)), "shorten data.seq_len"));
}

TEST_F(MemoryFit, AdviceOffersSmallerFormatsWhenNothingElseHelps) {
  config_.precision.compute = DType::kBF16;
  config_.train.micro_batch = 1;
  RunConfig smallest = config_;
  smallest.memory.recompute = Recompute::kBlock;
  smallest.precision.master = MasterWeights::kBF16Remainder;
  const int64_t with_remainder = planned_bytes({smallest, model_, sizes_});
  EXPECT_TRUE(contains(fitting_advice(question(with_remainder)), "precision.master = \"bf16-remainder\" would fit"));
  smallest.optim.moments = DType::kBF16;
  const std::string advice = fitting_advice(question(planned_bytes({smallest, model_, sizes_})));
  EXPECT_TRUE(contains(advice, "optim.moments = \"bf16\" would fit"));
}

TEST_F(MemoryFit, OffloadingKeepsItsRecomputeOption) {
  config_.memory.recompute = Recompute::kBlock;
  config_.memory.offload = Offload::kActivations;
  config_.train.micro_batch = 0;
  config_.train.accumulation = 8;
  const auto runs = fitting_micro_batches(question(int64_t{1} << 40));
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs.front().config.memory.recompute, Recompute::kBlock);
}

TEST_F(MemoryFit, WhatCannotFitIsSaid) {
  EXPECT_FALSE(fit_by_any_means(question(1000)));
  EXPECT_TRUE(contains(fitting_advice(question(1000)), "shorten data.seq_len"));
}

TEST_F(MemoryFit, AdviceNamesTheRecomputeOption) {
  EXPECT_TRUE(contains(fitting_advice(question(bytes_with(Recompute::kBlock))), "memory.recompute = \"block\" would"));
}

// One micro-batch a step would leave all stages but one idle.
TEST_F(MemoryFit, PipelineStagesAreGivenSeveralMicroBatches) {
  config_.cluster.gpus = config_.cluster.pp = 4;
  config_.train.micro_batch = 0;
  config_.train.accumulation = 16;
  const std::vector<FittingRun> runs = fitting_micro_batches(question(int64_t{1} << 40));
  ASSERT_FALSE(runs.empty());
  EXPECT_GE(runs.front().config.train.accumulation, 4);
  EXPECT_EQ(runs.front().config.train.micro_batch * runs.front().config.train.accumulation, 16);
  config_.cluster.vpp = 2;
  for (const FittingRun& run : fitting_micro_batches(question(int64_t{1} << 40))) {
    EXPECT_EQ(run.config.train.accumulation % 4, 0);
  }
}

}  // namespace
}  // namespace litespark
