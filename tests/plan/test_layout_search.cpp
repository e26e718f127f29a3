// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/rng.h"
#include "plan/layout_memory.h"
#include "plan/layout_search.h"
#include "plan/plan_examples.h"
#include "support/error_text.h"

namespace litespark {
namespace {

using test::llama_8b_workload;

SearchQuestion question_for(int64_t gpus) {
  SearchQuestion question;
  question.workload = llama_8b_workload();
  question.workload.global_batch = 1024;
  question.software = litespark_software();
  question.hardware = hardware_named("h100");
  question.gpus = gpus;
  return question;
}

TEST(LayoutSearch, FindsAPlanAndSaysWhatIsRuledOut) {
  const SearchQuestion question = question_for(64);
  const SearchResult result = search_layouts(question);
  ASSERT_FALSE(result.plans.empty());
  EXPECT_GT(result.why_not.at("memory"), 0);
  for (size_t i = 1; i < result.plans.size(); ++i) {
    EXPECT_LE(result.plans[i - 1].step.total, result.plans[i].step.total);
  }
  EXPECT_TRUE(contains(search_text(result, question), "ruled out"));
  EXPECT_TRUE(contains(search_json(result), "\"plans\": [{\"dp\""));
}

TEST(LayoutSearch, NeverProposesAPlanOverMemory) {
  const RandomStream random(7, 1);
  const int loops = 60;
  for (int i = 0; i < loops; ++i) {
    const auto pick = [&](int what, uint64_t bound) {
      return static_cast<int64_t>(random.below(static_cast<uint64_t>(16 * i + what), bound));
    };
    SearchQuestion question = question_for(int64_t{1} << pick(0, 9));
    TransformerShape& shape = question.workload.shape;
    shape.layers = 4 + pick(1, 90);
    shape.heads = int64_t{8} << pick(2, 5);
    shape.kv_heads = 8;
    shape.hidden = shape.heads * 128;
    shape.ffn = shape.hidden * 7 / 2;
    question.workload.seq_len = int64_t{1024} << pick(3, 6);
    question.workload.global_batch = int64_t{1} << (4 + pick(4, 8));
    question.hardware = known_hardware()[static_cast<size_t>(pick(5, 5))];
    question.tries_fp8 = pick(6, 2) == 1;
    const double limit = question.memory_share * question.hardware.memory_bytes();
    for (const SearchPlan& plan : search_layouts(question).plans) {
      EXPECT_LE(layout_memory(plan.workload, question.software).total(), limit);
      EXPECT_EQ(plan.workload.layout.gpus(), question.gpus);
      EXPECT_NO_THROW(check_workload(plan.workload));
      EXPECT_GT(plan.step.total, 0);
    }
  }
}

TEST(LayoutSearch, WhatFitsNowhereIsRefusedWithTheSmallest) {
  SearchQuestion question = question_for(1);
  question.workload.shape.layers = 126;
  question.workload.shape.hidden = 16384;
  question.workload.shape.heads = 128;
  question.workload.shape.ffn = 53248;
  const SearchResult result = search_layouts(question);
  EXPECT_TRUE(result.plans.empty());
  const std::string text = search_text(result, question);
  EXPECT_TRUE(contains(text, "nothing fits"));
  EXPECT_TRUE(contains(text, "the smallest that does not fit takes"));
}

TEST(LayoutSearch, LargeModelsAreSplitAndSmallOnesAreNot) {
  SearchQuestion question = question_for(8);
  question.workload.shape.layers = 12;
  question.workload.shape.hidden = 1024;
  question.workload.shape.heads = question.workload.shape.kv_heads = 8;
  question.workload.shape.ffn = 4096;
  question.workload.seq_len = 1024;
  EXPECT_EQ(search_layouts(question).plans.front().workload.layout.dp, 8);
  SearchQuestion large = question_for(1024);
  large.workload.shape.layers = 126;
  large.workload.shape.hidden = 16384;
  large.workload.shape.heads = 128;
  large.workload.shape.ffn = 53248;
  const Layout layout = search_layouts(large).plans.front().workload.layout;
  EXPECT_GT(layout.tp * layout.pp, 4);
}

TEST(LayoutSearch, SixteenThousandDevicesAreSearched) {
  SearchQuestion question = question_for(16384);
  question.workload.global_batch = 16384;
  EXPECT_FALSE(search_layouts(question).plans.empty());
}

TEST(LayoutSearch, NoDevicesNoPeakNoBatchAreRefused) {
  SearchQuestion question = question_for(0);
  EXPECT_THROW(search_layouts(question), ConfigError);
  question = question_for(8);
  question.hardware.bf16_tflops = 0;
  EXPECT_THROW(search_layouts(question), ConfigError);
  question = question_for(8);
  question.workload.global_batch = 0;
  EXPECT_THROW(search_layouts(question), ConfigError);
}

}  // namespace
}  // namespace litespark
