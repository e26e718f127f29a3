// SPDX-License-Identifier: Apache-2.0
// Tapes of a backend that wants SwiGLU inside the MLP's products: which ops stand there, and where they do not.
#include <gtest/gtest.h>

#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

class JoiningSizes final : public PlainSizes {
 public:
  bool joins_swiglu(DType compute, int64_t hidden, int64_t intermediate) const override {
    return compute == DType::kBF16 && hidden == 32 && intermediate == 48;
  }
};

ProgramOptions bf16_options() {
  ProgramOptions options = small_options();
  options.compute = DType::kBF16;
  return options;
}

Program joined_program(const ProgramOptions& options, const ModelConfig& config = small_config()) {
  return make_llama_program(config, options, JoiningSizes());
}

TEST(JoinedSwiGlu, StandsForTwoOpsOfEachLayerInBothDirections) {
  const Program joined = joined_program(bf16_options());
  const Program apart = make_llama_program(small_config(), bf16_options(), PlainSizes());
  const Tape& tape = *joined.tape(Phase::kTrainFirst);
  const Tape& other = *apart.tape(Phase::kTrainFirst);
  EXPECT_EQ(ops_of<op::GatedForward>(tape).size(), 3u);
  EXPECT_EQ(ops_of<op::GatedBackward>(tape).size(), 3u);
  EXPECT_TRUE(ops_of<op::SwiGluForward>(tape).empty());
  EXPECT_TRUE(ops_of<op::SwiGluBackward>(tape).empty());
  EXPECT_EQ(ops_of<op::MatmulForward>(tape).size() + 3, ops_of<op::MatmulForward>(other).size());
  EXPECT_EQ(ops_of<op::MatmulBackwardInput>(tape).size() + 3, ops_of<op::MatmulBackwardInput>(other).size());
  EXPECT_EQ(ops_of<op::MatmulBackwardWeight>(tape).size(), ops_of<op::MatmulBackwardWeight>(other).size());
}

TEST(JoinedSwiGlu, TheGradientLiesOverGateAndUp) {
  const Program program = joined_program(bf16_options());
  for (const auto& op : ops_of<op::GatedBackward>(*program.tape(Phase::kTrainFirst))) {
    EXPECT_EQ(op.dgate_up.index, op.gate_up.index);
    EXPECT_EQ(program.tensors[op.scratch].shape.num_elements(), op::gated_gradient_bytes(64, 48, DType::kBF16));
  }
}

TEST(JoinedSwiGlu, WhatIsRecomputedIsTheSameOp) {
  ProgramOptions options = bf16_options();
  options.recompute = Recompute::kBlock;
  const Program whole = joined_program(options);
  EXPECT_EQ(ops_of<op::GatedForward>(*whole.tape(Phase::kTrainFirst)).size(), 6u);
  options.recompute = Recompute::kNormAct;
  const Program activations = joined_program(options);
  EXPECT_EQ(ops_of<op::GatedForward>(*activations.tape(Phase::kTrainFirst)).size(), 3u);
  EXPECT_EQ(ops_of<op::SwiGluForward>(*activations.tape(Phase::kTrainFirst)).size(), 3u);
}

TEST(JoinedSwiGlu, StaysOutOfWhatTheKernelsDoNotTake) {
  ProgramOptions options = small_options();
  EXPECT_TRUE(ops_of<op::GatedForward>(*joined_program(options).tape(Phase::kTrainFirst)).empty()) << "f32";
  options = bf16_options();
  options.fp8 = Fp8Options{.allows_emulation = true};
  options.residual = DType::kBF16;
  EXPECT_TRUE(ops_of<op::GatedForward>(*joined_program(options).tape(Phase::kTrainFirst)).empty()) << "8-bit";
  ModelConfig config = small_config();
  config.has_mlp_bias = true;
  EXPECT_TRUE(ops_of<op::GatedForward>(*joined_program(bf16_options(), config).tape(Phase::kTrainFirst)).empty());
}

}  // namespace
}  // namespace litespark
