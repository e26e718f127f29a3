// SPDX-License-Identifier: Apache-2.0
// The head walks over chunks of rows: each row once, no more logits than a chunk, no gradients without training.
#include <gtest/gtest.h>

#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

TEST(LlamaHead, ChunksCoverEveryRowOnceAndTheLastMayBeShort) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  const int64_t first_label = program.tensors.root(program.batch.labels).second;
  for (const Phase phase : {Phase::kTrainFirst, Phase::kEval}) {
    int64_t next_row = 0;
    for (const auto& loss : ops_of<op::CrossEntropy>(*program.tape(phase))) {
      const int64_t rows = program.tensors[loss.labels].shape[0];
      EXPECT_EQ(program.tensors.root(loss.labels).second, first_label + next_row * 4);
      EXPECT_EQ(program.tensors[loss.logits].shape, (Shape{rows, 100}));
      EXPECT_EQ(program.tensors[loss.losses].shape, (Shape{rows}));
      next_row += rows;
    }
    EXPECT_EQ(next_row, 64);
  }
  EXPECT_EQ(ops_of<op::CrossEntropy>(*program.tape(Phase::kEval)).size(), 3U);  // 24 + 24 + 16
}

TEST(LlamaHead, NoTensorOfATrainingPhaseHoldsAllLogits) {  // report:B27
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  for (int32_t i = 0; i < program.tensors.size(); ++i) {
    const TensorInfo& info = program.tensors[TensorId{i}];
    const bool is_vocabulary_wide = info.shape.rank() == 2 && info.shape[1] == 100;
    if (is_vocabulary_wide) {
      EXPECT_LE(info.shape[0], 24) << info.name;
    }
  }
}

TEST(LlamaHead, EvaluationTakesTheSameLossAndNoGradient) {
  ProgramOptions options = small_options();
  options.z_loss = 1e-3;
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  for (const auto& loss : ops_of<op::CrossEntropy>(*program.tape(Phase::kTrainFirst))) {
    EXPECT_TRUE(loss.write_gradient);
    EXPECT_FLOAT_EQ(loss.z_coefficient, 1e-3F);
    EXPECT_TRUE(loss.log_sum_exp.has_value());
  }
  const Tape& eval = *program.tape(Phase::kEval);
  for (const auto& loss : ops_of<op::CrossEntropy>(eval)) EXPECT_FALSE(loss.write_gradient);
  EXPECT_TRUE(ops_of<op::MatmulBackwardWeight>(eval).empty());
  EXPECT_EQ(ops_of<op::LossReduce>(eval).size(), 1U);
}

TEST(LlamaHead, TheLogitsPhaseFillsTheirTensorAndTakesNoLoss) {
  ProgramOptions options = small_options();
  options.has_logits = true;
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  const Tape& tape = *program.tape(Phase::kLogits);
  EXPECT_EQ(ops_of<op::MatmulForward>(tape).back().y, program.logits);
  EXPECT_TRUE(ops_of<op::CrossEntropy>(tape).empty());
}

TEST(LlamaHead, ATiedHeadMultipliesWithTheEmbedding) {
  ModelConfig config = small_config();
  config.tie_word_embeddings = true;
  const Program program = make_llama_program(config, small_options(), PlainSizes());
  const auto embedding = static_cast<size_t>(program.params.find(ParamRole::kEmbedding).value());
  const Tape& tape = *program.tape(Phase::kEval);
  EXPECT_EQ(ops_of<op::MatmulForward>(tape).back().weight, program.param_tensors[embedding].weight);
}

}  // namespace
}  // namespace litespark
