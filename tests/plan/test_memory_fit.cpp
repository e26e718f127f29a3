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

TEST_F(MemoryFit, WhatCannotFitIsSaid) {
  EXPECT_FALSE(fit_by_any_means(question(1000)));
  EXPECT_TRUE(contains(fitting_advice(question(1000)), "shorten data.seq_len"));
}

TEST_F(MemoryFit, AdviceNamesTheRecomputeOption) {
  EXPECT_TRUE(contains(fitting_advice(question(bytes_with(Recompute::kBlock))), "memory.recompute = \"block\" would"));
}

}  // namespace
}  // namespace litespark
