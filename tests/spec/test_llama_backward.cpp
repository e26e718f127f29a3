// SPDX-License-Identifier: Apache-2.0
// The backward tape as the mirror of the forward one, with and without recomputation.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::names_of;
using test::ops_of;
using test::small_config;
using test::small_options;
using test::written_by;

using Names = std::vector<std::string>;

ModelConfig everything_config() {
  ModelConfig config = small_config();
  config.has_qkv_bias = config.has_output_bias = config.has_mlp_bias = config.has_qk_norm = true;
  return config;
}

/// How often a tape writes the gradient of each parameter.
std::map<std::string, int> gradient_writes(const Program& program, const Tape& tape) {
  std::map<int32_t, std::string> names;
  std::map<std::string, int> writes;
  for (size_t i = 0; i < program.params.params.size(); ++i) {
    names[program.param_tensors[i].gradient.index] = program.params.params[i].name;
    writes[program.params.params[i].name] = 0;
  }
  for (const TapeEntry& entry : tape.entries()) {
    for (const TensorId id : written_by(entry.op)) {
      if (names.contains(id.index)) ++writes[names[id.index]];
    }
  }
  return writes;
}

TEST(LlamaBackward, EveryParameterGetsItsGradientOnceAndTheHeadOnceAChunk) {
  const Program program = make_llama_program(everything_config(), small_options(), PlainSizes());
  for (const auto& [name, count] : gradient_writes(program, *program.tape(Phase::kTrainFirst))) {
    EXPECT_EQ(count, name == "head" ? 3 : 1) << name;
  }
}

TEST(LlamaBackward, ATiedEmbeddingAddsItsPartToTheHeads) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = true;
  const Program program = make_llama_program(config, small_options(), PlainSizes());
  EXPECT_EQ(gradient_writes(program, *program.tape(Phase::kTrainFirst)).at("embedding"), 3 + 1);
  EXPECT_TRUE(ops_of<op::EmbeddingBackward>(*program.tape(Phase::kTrainFirst)).at(0).accumulate);

  const Program untied = make_llama_program(small_config(), small_options(), PlainSizes());
  EXPECT_FALSE(ops_of<op::EmbeddingBackward>(*untied.tape(Phase::kTrainFirst)).at(0).accumulate);
}

TEST(LlamaBackward, GoesThroughTheLayersFromTheLast) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  std::vector<int32_t> layers;
  for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
    const bool is_new = layers.empty() || layers.back() != entry.layer;
    if (entry.scope.starts_with("backward") && entry.layer >= 0 && is_new) layers.push_back(entry.layer);
  }
  EXPECT_EQ(layers, (std::vector<int32_t>{2, 1, 0}));
}

TEST(LlamaBackward, AttentionRotatesItsGradientsBackBeforeTheHeadNorms) {
  const Program program = make_llama_program(everything_config(), small_options(), PlainSizes());
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  EXPECT_EQ(names_of(tape, "backward.rope", 0), (Names{"head_norm_backward"}));
  EXPECT_TRUE(std::ranges::none_of(ops_of<op::Rope>(tape), [](const auto& rope) { return rope.inverse; }));
  for (const auto& attention : ops_of<op::AttentionBackward>(tape)) {
    EXPECT_EQ(attention.table, program.rope_table);
    EXPECT_TRUE(attention.positions.has_value());
  }
}

TEST(LlamaBackward, OnlyTheFinalNormStartsTheStreamsGradient) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  const auto norms = ops_of<op::RmsNormBackward>(*program.tape(Phase::kTrainFirst));
  ASSERT_EQ(norms.size(), 2U * 3 + 1);
  for (size_t i = 0; i < norms.size(); ++i) {
    EXPECT_EQ(norms[i].first, i == 0);
    EXPECT_EQ(norms[i].dresidual, norms[0].dresidual);
  }
}

/// Ops of the forward scopes that stand behind the first backward op, for one layer.
Names recomputed_names(Recompute recompute, int32_t layer) {
  ProgramOptions options = small_options();
  options.recompute = recompute;
  options.recompute_every = 2;
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  Names names;
  bool is_backward = false;
  for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
    is_backward |= entry.scope == "backward.norm";
    if (is_backward && entry.layer == layer && entry.scope.starts_with("forward"))
      names.emplace_back(op_name(entry.op));
  }
  return names;
}

TEST(LlamaBackward, RecomputesWhatTheOptionSaysAndNothingElse) {
  EXPECT_EQ(recomputed_names(Recompute::kNone, 1), Names{});
  EXPECT_EQ(recomputed_names(Recompute::kNormAct, 1),
            (Names{"rms_norm_forward", "rms_norm_forward", "swiglu_forward"}));
  EXPECT_EQ(
      recomputed_names(Recompute::kAttention, 1),
      (Names{"rms_norm_forward", "matmul_forward", "rope", "attention_forward", "rms_norm_forward", "swiglu_forward"}));
  EXPECT_EQ(recomputed_names(Recompute::kKeepAttention, 1),
            (Names{"rms_norm_forward", "matmul_forward", "rope", "matmul_forward", "rms_norm_forward", "matmul_forward",
                   "swiglu_forward"}));
  const Names whole = {"rms_norm_forward", "matmul_forward",   "rope",           "attention_forward",
                       "matmul_forward",   "rms_norm_forward", "matmul_forward", "swiglu_forward"};
  EXPECT_EQ(recomputed_names(Recompute::kBlock, 1), whole);  // all but the last matmul, whose output nobody needs
  Names with_down = whole;
  with_down.emplace_back("matmul_forward");
  // Layers 0 and 1 are a segment: the second needs what the first hands on.
  EXPECT_EQ(recomputed_names(Recompute::kEveryK, 0), with_down);
  EXPECT_EQ(recomputed_names(Recompute::kEveryK, 1), whole);
}

}  // namespace
}  // namespace litespark
