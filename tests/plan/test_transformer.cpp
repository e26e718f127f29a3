// SPDX-License-Identifier: Apache-2.0
// Counts against published totals, and against the counts that training itself uses.
#include <gtest/gtest.h>

#include "plan/plan_examples.h"
#include "plan/transformer.h"
#include "spec/flops.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

TransformerShape llama_8b() {
  return test::llama_8b_workload().shape;
}

TEST(Transformer, CountsThePublishedParameters) {
  EXPECT_NEAR(llama_8b().parameters(), 8.03e9, 0.005e9);
  TransformerShape gpt{.layers = 96,
                       .hidden = 12288,
                       .heads = 96,
                       .kv_heads = 96,
                       .head_dim = 128,
                       .ffn = 49152,
                       .vocab = 51200,
                       .gated = false,
                       .tied = true,
                       .experts = {},
                       .latent = {}};
  EXPECT_NEAR(gpt.parameters(), 174.6e9, 0.1e9);
}

TEST(Transformer, CountsExpertsAndLatentAttentionOfDeepSeekV3) {
  TransformerShape shape{.layers = 61,
                         .hidden = 7168,
                         .heads = 128,
                         .kv_heads = 128,
                         .head_dim = 56,
                         .ffn = 2048,
                         .vocab = 129280,
                         .gated = true,
                         .tied = false,
                         .experts = {},
                         .latent = {}};
  complete_from_name(shape, "DeepSeek-V3");
  ASSERT_TRUE(shape.experts && shape.latent);
  EXPECT_NEAR(shape.parameters(), 671e9, 2e9);
  EXPECT_NEAR(shape.active_parameters() + shape.embedding_parameters(), 37.6e9, 0.5e9);
}

TEST(Transformer, AgreesWithTheCountsOfTraining) {
  const ModelConfig config = test::small_config();
  const TransformerShape shape = shape_of(config);
  EXPECT_DOUBLE_EQ(shape.active_parameters(), static_cast<double>(matmul_parameters(config)));
  EXPECT_DOUBLE_EQ(shape.training_flops_per_token(256), training_flops_per_token(config, 256));
}

TEST(Transformer, NamesWithoutExpertsChangeNothing) {
  TransformerShape shape = llama_8b();
  complete_from_name(shape, "llama3.1-8b");
  EXPECT_FALSE(shape.experts || shape.latent);
}

}  // namespace
}  // namespace litespark
