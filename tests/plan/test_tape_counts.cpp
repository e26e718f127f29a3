// SPDX-License-Identifier: Apache-2.0
// Counts against the formulas; against a run that is watched: tests/train/test_counted_work.cpp.
#include <gtest/gtest.h>

#include "plan/tape_counts.h"
#include "spec/flops.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::small_config;
using test::small_options;

constexpr int64_t kRows = 2;
constexpr int64_t kLength = 32;

Program program_with(Recompute recompute) {
  ProgramOptions options = small_options();
  options.batch = {.num_tokens = kRows * kLength, .max_documents = kRows, .max_length = kLength, .uniform = true};
  options.recompute = recompute;
  return make_llama_program(small_config(), options, PlainSizes());
}

TEST(TapeCounts, ForwardIsTwoFlopsAParameterAndBackwardTwiceThat) {
  const WorkCounter counter = count_micro_batch(program_with(Recompute::kNone));
  double matmuls = 0;
  for (const auto& [name, counts] : counter.components()) {
    if (name == "attention") continue;
    EXPECT_EQ(counts.backward_flops, 2 * counts.forward_flops) << name;
    matmuls += counts.forward_flops;
  }
  EXPECT_DOUBLE_EQ(matmuls, 2.0 * static_cast<double>(matmul_parameters(small_config())) * kRows * kLength);
  EXPECT_EQ(counter.total().recomputed_flops, 0);
  EXPECT_GT(counter.total().bytes, 0);
}

TEST(TapeCounts, AttentionIsItsCausalHalf) {
  const WorkCounter counter = count_micro_batch(program_with(Recompute::kNone));
  const ComponentCounts& attention = counter.components().at("attention");
  EXPECT_DOUBLE_EQ(attention.backward_flops, 2.5 * attention.forward_flops);
  const ModelConfig config = small_config();
  EXPECT_DOUBLE_EQ(attention.forward_flops, 2.0 * static_cast<double>(config.num_hidden_layers) * kRows * kLength *
                                                kLength * static_cast<double>(config.attention_features()));
}

TEST(TapeCounts, ABlockThatIsRecomputedIsItsForwardOnceMore) {
  const WorkCounter none = count_micro_batch(program_with(Recompute::kNone));
  const WorkCounter block = count_micro_batch(program_with(Recompute::kBlock));
  EXPECT_EQ(block.total().forward_flops, none.total().forward_flops);
  EXPECT_EQ(block.total().backward_flops, none.total().backward_flops);
  EXPECT_GT(block.components().at("attention").recomputed_flops, 0);
  EXPECT_EQ(block.components().at("head").recomputed_flops, 0);
  EXPECT_LE(block.total().recomputed_flops, none.total().forward_flops);
}

TEST(TapeCounts, AreShownByComponent) {
  const WorkCounter counter = count_micro_batch(program_with(Recompute::kNone));
  for (const char* part : {"qkv", "gate_up", "head", "sum"}) {
    EXPECT_TRUE(contains(counts_text(counter), part));
    EXPECT_TRUE(contains(counts_json(counter), part));
  }
}

}  // namespace
}  // namespace litespark
