// SPDX-License-Identifier: Apache-2.0
// The prediction counts what the tape really does, so that it can compare programs.
#include <gtest/gtest.h>

#include <set>

#include "plan/tape_cost.h"
#include "spec/flops.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::small_config;
using test::small_options;

Program program_with(Recompute recompute, int64_t rows = 2) {
  ProgramOptions options = small_options();
  options.batch = {.num_tokens = rows * 32, .max_documents = rows, .max_length = 32, .uniform = true};
  options.recompute = recompute;
  options.recompute_every = 2;
  options.accumulates = true;
  return make_llama_program(small_config(), options, PlainSizes());
}

TEST(TapeCost, MatmulsAreSixTimesTheirParametersAToken) {
  const Program program = program_with(Recompute::kNone);
  constexpr double kNever = 1e300;
  const double seconds = predicted_seconds(
      *program.tape(Phase::kTrainFirst), program.tensors,
      {.matmul_flops_per_second = 1, .attention_flops_per_second = kNever, .bytes_per_second = kNever});
  EXPECT_DOUBLE_EQ(seconds, 6.0 * static_cast<double>(matmul_parameters(small_config())) * 64);
}

TEST(TapeCost, AttentionIsItsCausalHalfAndTwoAndAHalfTimesThatBackwards) {
  const Program program = program_with(Recompute::kNone);
  constexpr double kNever = 1e300;
  const double seconds = predicted_seconds(
      *program.tape(Phase::kTrainFirst), program.tensors,
      {.matmul_flops_per_second = kNever, .attention_flops_per_second = 1, .bytes_per_second = kNever});
  EXPECT_DOUBLE_EQ(seconds, 7.0 * 3 * 64 * 32 * 4 * 8);  // L N T H D
}

TEST(TapeCost, AttentionOnEightBitsHasTheSameProductsAndMovesItsCopies) {
  ProgramOptions options = small_options();
  options.compute = options.residual = DType::kBF16;
  options.fp8_attention = Fp8AttentionOptions{.allows_emulation = true};
  const Program program = make_llama_program(small_config(), options, PlainSizes());
  options.fp8_attention.reset();
  const Program plain = make_llama_program(small_config(), options, PlainSizes());
  double flops = 0;
  double copies = 0;
  for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
    const OpWork work = op_work(entry.op, program.tensors);
    flops += work.attention_flops;
    if (std::holds_alternative<op::QuantizeQkv<TensorId>>(entry.op)) copies += work.bytes;
  }
  double expected = 0;
  for (const TapeEntry& entry : plain.tape(Phase::kTrainFirst)->entries()) {
    expected += op_work(entry.op, plain.tensors).attention_flops;
  }
  EXPECT_DOUBLE_EQ(flops, expected);
  EXPECT_GE(copies, 3.0 * 64 * 64 * 3);  // layers, tokens, features: read in two bytes, written in one
}

TEST(TapeCost, HeadsThatAreOffAreNotCounted) {
  const Program program = program_with(Recompute::kNone);
  for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
    const double all = op_work(entry.op, program.tensors).attention_flops;
    op::AnyOp<TensorId> gated = entry.op;
    op::HeadGates gates;
    gates.switch_off(1);
    if (auto* const forward = std::get_if<op::AttentionForward<TensorId>>(&gated)) forward->shape.gates = gates;
    if (auto* const backward = std::get_if<op::AttentionBackward<TensorId>>(&gated)) backward->shape.gates = gates;
    EXPECT_DOUBLE_EQ(op_work(gated, program.tensors).attention_flops, all * 3 / 4);
  }
}

TEST(TapeCost, SwiGluInsideAProductChangesNoMatmulWorkAndSavesTraffic) {
  struct JoiningSizes final : PlainSizes {
    bool joins_swiglu(DType, int64_t, int64_t) const override { return true; }
  };
  const auto work_of = [](const BackendSizes& sizes) {
    const Program program = make_llama_program(small_config(), small_options(), sizes);
    OpWork sum;
    double flops = 0;
    for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
      const OpWork work = op_work(entry.op, program.tensors);
      sum.bytes += work.bytes;
      flops += work.matmul_flops();
    }
    return std::pair(flops, sum.bytes);
  };
  const auto [joined_flops, joined_bytes] = work_of(JoiningSizes());
  const auto [flops, bytes] = work_of(PlainSizes());
  EXPECT_DOUBLE_EQ(joined_flops, flops);
  EXPECT_LT(joined_bytes, bytes);
}

TEST(TapeCost, ScalesByRowSlowTheCopiesAndThePromotedProducts) {
  const auto slower_ops = [](Fp8Scaling scaling) {
    ProgramOptions options = small_options();
    options.compute = DType::kBF16;
    options.fp8 = Fp8Options{.scaling = scaling, .allows_emulation = true};
    const Program program = make_llama_program(small_config(), options, PlainSizes());
    std::set<std::string_view> names;
    for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
      if (op_work(entry.op, program.tensors).rate_share < 1) names.insert(op_name(entry.op));
    }
    return names;
  };
  EXPECT_TRUE(slower_ops(Fp8Scaling::kTensor).empty());
  EXPECT_EQ(slower_ops(Fp8Scaling::kRow), (std::set<std::string_view>{"quantize_fp8", "scaled_matmul"}));
}

TEST(TapeCost, RecomputeAddsTimeInTheOrderOfItsThoroughness) {
  double before = 0;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kNormAct, Recompute::kAttention,
                                    Recompute::kKeepAttention, Recompute::kBlock, Recompute::kEveryK}) {
    const double seconds = predicted_step_seconds(program_with(recompute), 2, kGpuRates);
    EXPECT_GT(seconds, before);
    before = seconds;
  }
}

TEST(TapeCost, AStepOfFewerLargerMicroBatchesIsFaster) {
  EXPECT_LT(predicted_step_seconds(program_with(Recompute::kNone, 4), 1, kGpuRates),
            predicted_step_seconds(program_with(Recompute::kNone, 1), 4, kGpuRates));
}

}  // namespace
}  // namespace litespark
