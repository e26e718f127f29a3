// SPDX-License-Identifier: Apache-2.0
// The forward tape against the architecture's diagram.
#include <gtest/gtest.h>

#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::names_of;
using test::ops_of;
using test::small_config;
using test::small_options;

using Names = std::vector<std::string>;

TEST(LlamaForward, ABlockReadsLikeTheDiagram) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  const Names diagram = {"rms_norm_forward", "matmul_forward", "rope",           "attention_forward", "matmul_forward",
                         "rms_norm_forward", "matmul_forward", "swiglu_forward", "matmul_forward"};
  for (int32_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(names_of(*program.tape(Phase::kEval), "forward", layer), diagram);
    EXPECT_EQ(names_of(*program.tape(Phase::kTrainFirst), "forward", layer), diagram);
  }
}

TEST(LlamaForward, HeadsAreNormedBeforeTheyAreRotated) {
  ModelConfig config = small_config();
  config.has_qk_norm = true;
  const Program program = make_llama_program(config, small_options(), PlainSizes());
  EXPECT_EQ(names_of(*program.tape(Phase::kEval), "forward.rope", 1), (Names{"head_norm_forward", "rope"}));
}

TEST(LlamaForward, EveryNormButTheFirstAddsTheBranchBeforeIt) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  const auto norms = ops_of<op::RmsNormForward>(*program.tape(Phase::kEval));
  ASSERT_EQ(norms.size(), 2U * 3 + 1);
  EXPECT_FALSE(norms[0].delta.has_value());
  EXPECT_FALSE(norms[0].sum.has_value());
  for (size_t i = 1; i < norms.size(); ++i) {
    EXPECT_TRUE(norms[i].delta.has_value());
    // The stream is handed on: what one norm summed is what the next one adds to.
    const TensorId stream = i == 1 ? norms[0].x : norms[i - 1].sum;
    EXPECT_EQ(norms[i].x, stream) << i;
  }
}

TEST(LlamaForward, RotatesQueriesAndKeysAndLeavesValues) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  for (const auto& rope : ops_of<op::Rope>(*program.tape(Phase::kEval))) {
    EXPECT_EQ(rope.num_rotated_heads, 4 + 2);
    EXPECT_EQ(rope.num_heads_total, 4 + 2 + 2);
    EXPECT_FALSE(rope.inverse);
  }
}

TEST(LlamaForward, AlibiRotatesNothingAndTellsAttention) {
  ModelConfig config = small_config();
  config.positions = Positions::kAlibi;
  const Program program = make_llama_program(config, small_options(), PlainSizes());
  EXPECT_FALSE(program.rope_table.has_value());
  for (const auto& [phase, tape] : program.tapes) EXPECT_TRUE(ops_of<op::Rope>(tape).empty()) << phase_name(phase);
  for (const auto& attention : ops_of<op::AttentionForward>(*program.tape(Phase::kTrainFirst))) {
    EXPECT_TRUE(attention.shape.has_alibi);
  }
  for (const auto& attention : ops_of<op::AttentionBackward>(*program.tape(Phase::kTrainFirst))) {
    EXPECT_TRUE(attention.shape.has_alibi);
  }
}

TEST(LlamaForward, EveryPhaseReadsTheAnglesInThePrecisionOfTheModel) {
  ModelConfig config = small_config();
  config.rope.precision = RopePrecision::kF16;
  ProgramOptions options = small_options();
  options.generation = GenerationShape{.capacity = 8, .prefill_rows = 4};
  const Program program = make_llama_program(config, options, PlainSizes());
  EXPECT_EQ(program.tensors[program.rope_table].dtype, DType::kF16);
  for (const Phase phase : {Phase::kTrainFirst, Phase::kEval, Phase::kDecode}) {
    ASSERT_NE(program.tape(phase), nullptr) << phase_name(phase);
    for (const auto& rope : ops_of<op::Rope>(*program.tape(phase))) EXPECT_EQ(rope.table, program.rope_table);
  }
}

TEST(LlamaForward, OnlyTheLayersThatUseTheWindowHaveIt) {
  ModelConfig config = small_config();
  config.sliding_window = 8;
  config.layer_uses_window = {true, false, true};
  const Program program = make_llama_program(config, small_options(), PlainSizes());
  const auto attention = ops_of<op::AttentionForward>(*program.tape(Phase::kEval));
  ASSERT_EQ(attention.size(), 3U);
  EXPECT_EQ(attention[0].shape.window, 8);
  EXPECT_EQ(attention[1].shape.window, 0);
  EXPECT_EQ(attention[2].shape.window, 8);
}

}  // namespace
}  // namespace litespark
