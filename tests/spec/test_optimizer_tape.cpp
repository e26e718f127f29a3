// SPDX-License-Identifier: Apache-2.0
// Every weight is updated once, decayed when it should be, and copied for the matmuls afterwards.
#include <gtest/gtest.h>

#include <algorithm>

#include "spec/optimizer_tape.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

TEST(OptimizerTape, UpdatesEachElementOfTheFlatTensorsOnce) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  std::vector<int> updates(static_cast<size_t>(program.params.flat_size));
  for (const auto& adamw : ops_of<op::AdamW>(*program.tape(Phase::kOptimizer))) {
    const auto first = static_cast<size_t>(program.tensors.root(adamw.master).second / 4);
    const auto count = static_cast<size_t>(program.tensors[adamw.master].shape.num_elements());
    for (const TensorId id : {adamw.first_moment, adamw.second_moment, adamw.gradient}) {
      EXPECT_EQ(static_cast<size_t>(program.tensors.root(id).second / 4), first);
      EXPECT_EQ(static_cast<size_t>(program.tensors[id].shape.num_elements()), count);
    }
    for (size_t i = first; i < first + count; ++i) ++updates.at(i);
  }
  for (const int count : updates) ASSERT_EQ(count, 1);
}

TEST(OptimizerTape, DecaysMatricesAndSparesNormsAndBiases) {
  ModelConfig config = small_config();
  config.has_qkv_bias = true;
  ProgramOptions options = small_options();
  options.adamw.weight_decay = 0.25;
  const Program program = make_llama_program(config, options, PlainSizes());
  std::vector<double> decay(static_cast<size_t>(program.params.flat_size), -1);
  for (const auto& adamw : ops_of<op::AdamW>(*program.tape(Phase::kOptimizer))) {
    const auto first = static_cast<size_t>(program.tensors.root(adamw.master).second / 4);
    const auto count = static_cast<size_t>(program.tensors[adamw.master].shape.num_elements());
    std::fill_n(decay.begin() + static_cast<std::ptrdiff_t>(first), count, adamw.weight_decay);
  }
  for (const ParamSpec& param : program.params.params) {
    for (int64_t i = 0; i < param.shape.num_elements(); ++i) {
      ASSERT_EQ(decay.at(static_cast<size_t>(param.flat_offset + i)), param.is_matrix() ? 0.25 : 0.0) << param.name;
    }
  }
}

TEST(OptimizerTape, DecidesAfterTheNormAndBeforeTheFirstUpdate) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  const auto& entries = program.tape(Phase::kOptimizer)->entries();
  ASSERT_GT(entries.size(), 2U);
  EXPECT_EQ(op_name(entries[0].op), "gradient_square_sum");
  EXPECT_EQ(op_name(entries[1].op), "step_decision");
  for (size_t i = 2; i < entries.size(); ++i) EXPECT_EQ(op_name(entries[i].op), "adamw");
}

TEST(OptimizerTape, PassesOnTheOptimizersNumbersUnrounded) {
  ProgramOptions options = small_options();
  options.adamw = {.beta1 = 0.91, .beta2 = 0.987654321, .eps = 1e-9, .weight_decay = 0.1};
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  const Tape& tape = *program.tape(Phase::kOptimizer);
  EXPECT_EQ(ops_of<op::StepDecision>(tape).at(0).beta2, 0.987654321);
  for (const auto& adamw : ops_of<op::AdamW>(tape)) {
    EXPECT_EQ(adamw.beta1, 0.91);
    EXPECT_EQ(adamw.beta2, 0.987654321);
    EXPECT_EQ(adamw.eps, 1e-9);
  }
}

TEST(PackTape, CopiesWhatMatmulsReadAndNothingWhenTheyReadTheMasters) {
  const auto tape_of = [](DType compute, bool packs) {
    ProgramOptions options = small_options();
    options.compute = compute;
    return *make_llama_program(small_config(), options, PlainSizes(packs)).tape(Phase::kPack);
  };
  EXPECT_TRUE(tape_of(DType::kF32, false).entries().empty());
  EXPECT_EQ(ops_of<op::Convert>(tape_of(DType::kBF16, false)).size(), 1U);

  const auto packs = ops_of<op::PackWeight>(tape_of(DType::kBF16, true));
  ASSERT_EQ(packs.size(), 2U * (3 * 4 + 1));  // four matrices a layer and the head, forward and backward
  for (const auto& pack : packs) EXPECT_TRUE(pack.compute_bf16);
}

}  // namespace
}  // namespace litespark
