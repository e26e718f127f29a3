// SPDX-License-Identifier: Apache-2.0
// Every weight is updated once, decayed when it should be, and copied for the matmuls afterwards.
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "spec/optimizer_tape.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

/// The parameter's index in the table, by the place of its moment.
size_t param_of(const Program& program, const op::AdamW<TensorId>& adamw) {
  for (size_t p = 0; p < program.param_tensors.size(); ++p) {
    if (program.param_tensors[p].first_moment == adamw.first_moment) return p;
  }
  throw std::runtime_error("AdamW of no parameter");
}

TEST(OptimizerTape, UpdatesEachParameterOnceInFlatOrderWithItsOwnTensors) {
  for (const MasterWeights master : {MasterWeights::kF32, MasterWeights::kBF16Remainder, MasterWeights::kBF16}) {
    ProgramOptions options = small_options();
    options.compute = DType::kBF16;
    options.master = master;
    options.adamw.seed = 11;
    const Program program = make_llama_program(small_config(), options, PlainSizes());
    size_t expected = program.params.params.size();
    for (const auto& adamw : ops_of<op::AdamW>(*program.tape(Phase::kOptimizer))) {
      const size_t param = param_of(program, adamw);
      ASSERT_EQ(param, --expected);
      const ParamSpec& spec = program.params.params[param];
      const ParamTensors& tensors = program.param_tensors[param];
      EXPECT_EQ(adamw.first_element, spec.flat_offset);
      EXPECT_EQ(program.tensors.root(adamw.first_moment).second, 4 * spec.flat_offset);
      EXPECT_EQ(adamw.seed, 11U);
      EXPECT_EQ(adamw.second_moment, tensors.second_moment);
      EXPECT_EQ(adamw.gradient, tensors.gradient);
      EXPECT_EQ(adamw.master, tensors.master);
      EXPECT_EQ(adamw.weight, tensors.weight);
      EXPECT_EQ(adamw.remainder, tensors.remainder);
      if (!spec.is_matrix()) {
        EXPECT_EQ(adamw.form(), op::WeightForm::kMaster) << spec.name;
        continue;
      }
      const op::WeightForm forms[] = {op::WeightForm::kMaster, op::WeightForm::kSplit, op::WeightForm::kStochastic};
      EXPECT_EQ(adamw.form(), forms[static_cast<size_t>(master)]) << spec.name;
    }
    EXPECT_EQ(expected, 0U);
  }
}

TEST(OptimizerTape, DecaysMatricesAndSparesNormsAndBiases) {
  ModelConfig config = small_config();
  config.has_qkv_bias = true;
  ProgramOptions options = small_options();
  options.adamw.weight_decay = 0.25;
  const Program program = make_llama_program(config, options, PlainSizes());
  for (const auto& adamw : ops_of<op::AdamW>(*program.tape(Phase::kOptimizer))) {
    const ParamSpec& param = program.params.params[param_of(program, adamw)];
    EXPECT_EQ(adamw.weight_decay, param.is_matrix() ? 0.25 : 0.0) << param.name;
  }
}

// Padding between gradients need not be zero: other tensors may use its memory before the optimizer runs.
TEST(OptimizerTape, NormCoversBothKindsOfGradientsAndNoPadding) {
  ProgramOptions options = small_options();
  options.compute = options.gradient = DType::kBF16;
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  const auto sums = ops_of<op::GradientSquareSum>(*program.tape(Phase::kOptimizer));
  std::map<DType, int64_t> found;
  for (const auto& sum : sums)
    found[program.tensors[sum.gradient].dtype] += program.tensors[sum.gradient].shape.num_elements();
  std::map<DType, int64_t> expected;
  for (size_t p = 0; p < program.param_tensors.size(); ++p) {
    expected[program.tensors[program.param_tensors[p].gradient].dtype] += program.params.params[p].shape.num_elements();
  }
  EXPECT_EQ(expected.size(), 2U);
  EXPECT_GT(sums.size(), 2U) << "this model has padding";
  EXPECT_EQ(found, expected);
}

TEST(OptimizerTape, MakesAChecksumOfEveryGradientWhenAsked) {
  ProgramOptions options = small_options();
  EXPECT_EQ(make_llama_program(small_config(), options, PlainSizes()).tape(Phase::kChecksum), nullptr);
  options.has_checksums = true;
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  const auto checksums = ops_of<op::Checksum>(*program.tape(Phase::kChecksum));
  ASSERT_EQ(checksums.size(), program.params.params.size());
  for (size_t p = 0; p < checksums.size(); ++p) {
    EXPECT_EQ(checksums[p].x, program.param_tensors[p].gradient);
    EXPECT_EQ(program.tensors.root(checksums[p].out), std::pair(program.checksums, static_cast<int64_t>(8 * p)));
  }
}

TEST(OptimizerTape, DecidesAfterTheNormAndBeforeTheFirstUpdate) {
  const Program program = make_llama_program(small_config(), small_options(), PlainSizes());
  const auto& entries = program.tape(Phase::kOptimizer)->entries();
  size_t at = 0;
  while (at < entries.size() && op_name(entries[at].op) == "gradient_square_sum") ++at;
  EXPECT_GT(at, 0U);
  ASSERT_LT(at, entries.size());
  EXPECT_EQ(op_name(entries[at].op), "step_decision");
  for (size_t i = at + 1; i < entries.size(); ++i) EXPECT_EQ(op_name(entries[i].op), "adamw");
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

TEST(PackTape, CopiesWhatMatmulsReadAndNothingWhenTheyReadWeightsAsTheyAre) {
  const auto tape_of = [](DType compute, bool packs) {
    ProgramOptions options = small_options();
    options.compute = compute;
    return *make_llama_program(small_config(), options, PlainSizes(packs)).tape(Phase::kPack);
  };
  EXPECT_TRUE(tape_of(DType::kF32, false).entries().empty());
  EXPECT_TRUE(tape_of(DType::kBF16, false).entries().empty());

  const auto packs = ops_of<op::PackWeight>(tape_of(DType::kBF16, true));
  ASSERT_EQ(packs.size(), 2U * (3 * 4 + 1));  // four matrices a layer and the head, forward and backward
  for (const auto& pack : packs) EXPECT_TRUE(pack.compute_bf16);
}

TEST(PackTape, JoinsTheHalvesOfAMaster) {
  ProgramOptions options = small_options();
  options.compute = DType::kBF16;
  options.master = MasterWeights::kBF16Remainder;
  const Program program = make_llama_program(small_config(), options, PlainSizes(true));
  for (const auto& pack : ops_of<op::PackWeight>(*program.tape(Phase::kPack))) {
    EXPECT_EQ(program.tensors[pack.weight].dtype, DType::kBF16);
    EXPECT_EQ(program.tensors[pack.remainder].dtype, DType::kU16);
    EXPECT_EQ(program.tensors[pack.scratch].shape, program.tensors[pack.weight].shape);
  }
}

}  // namespace
}  // namespace litespark
