// SPDX-License-Identifier: Apache-2.0
// Counted by hand for two shapes.
#include <gtest/gtest.h>

#include "spec/flops.h"
#include "support/error_text.h"

namespace litespark {
namespace {

/// The 5M model: grouped queries, tied head.
constexpr int64_t kLayers = 6;
ModelConfig five_million() {
  return {.vocab_size = 4096,
          .hidden_size = 256,
          .intermediate_size = 688,
          .num_hidden_layers = kLayers,
          .num_attention_heads = 8,
          .num_key_value_heads = 4,
          .head_dim = 32,
          .tie_word_embeddings = true};
}

TEST(Flops, OfAGroupedQueryModelAreCountedByHand) {  // report:B39
  // A layer: q 256 x 256, k and v 256 x 128 each, o 256 x 256, three of 256 x 688. The head: 4096 x 256.
  const int64_t layer = 65536 + 2 * 32768 + 65536 + 3 * 176128;
  EXPECT_EQ(matmul_parameters(five_million()), kLayers * layer + 1048576);
  // 6 x 5398528 + 6 x 6 x 8 x 32 x 256
  EXPECT_DOUBLE_EQ(training_flops_per_token(five_million(), 256), 32391168.0 + 2359296.0);
}

TEST(Flops, AttentionCountsHeadsTimesTheirSizeAndNotTheWidth) {  // report:B39
  const ModelConfig wide_heads{.vocab_size = 10,
                               .hidden_size = 8,
                               .intermediate_size = 4,
                               .num_hidden_layers = 1,
                               .num_attention_heads = 2,
                               .num_key_value_heads = 2,
                               .head_dim = 16};
  // q, k, v, o of 8 x 32; three of 8 x 4; the head 10 x 8.
  EXPECT_EQ(matmul_parameters(wide_heads), 4 * 256 + 3 * 32 + 80);
  EXPECT_DOUBLE_EQ(training_flops_per_token(wide_heads, 100), 6.0 * 1200 + 6.0 * 32 * 100);
}

TEST(Flops, TyingTheHeadSavesNoArithmetic) {
  ModelConfig untied = five_million();
  untied.tie_word_embeddings = false;
  EXPECT_EQ(matmul_parameters(untied), matmul_parameters(five_million()));
}

TEST(Flops, TheFormulaIsShownWithItsNumbers) {
  EXPECT_TRUE(contains(training_flops_text(five_million(), 256), "6 L H D T (6 x 6 x 8 x 32 x 256)"));
}

}  // namespace
}  // namespace litespark
