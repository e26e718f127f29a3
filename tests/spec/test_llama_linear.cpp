// SPDX-License-Identifier: Apache-2.0
// The blocks' linear layers on 8-bit floats: which products there are, what is measured and copied once, and what
// backward keeps.
#include <gtest/gtest.h>

#include <map>

#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::ops_of;
using test::small_config;
using test::small_options;

constexpr Recompute kAllRecompute[] = {Recompute::kNone,          Recompute::kNormAct, Recompute::kAttention,
                                       Recompute::kKeepAttention, Recompute::kBlock,   Recompute::kEveryK};

ProgramOptions fp8_options(Fp8Scaling scaling = Fp8Scaling::kTensor) {
  ProgramOptions options = small_options();
  options.compute = options.residual = DType::kBF16;
  options.fp8 = Fp8Options{.scaling = scaling, .allows_emulation = true};
  return options;
}

Program program_with(const ProgramOptions& options) {
  return make_llama_program(small_config(), options, PlainSizes());
}

TEST(LlamaLinear, EveryLinearLayerOfABlockIsThreeEightBitProductsAndTheHeadIsNone) {
  const Program program = program_with(fp8_options());
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  EXPECT_EQ(ops_of<op::ScaledMatmul>(tape).size(), 3u * 4 * 3);
  EXPECT_EQ(ops_of<op::MatmulForward>(tape).size(), 3u) << "one a chunk of the head";
  for (const auto& product : ops_of<op::MatmulBackwardWeight>(tape)) {
    EXPECT_EQ(program.tensors[product.dweight].shape[0], 100) << "the head's";
  }
}

TEST(LlamaLinear, OnlyForwardProductsMayKeepNarrowSums) {
  const Program program = program_with(fp8_options());
  for (const TapeEntry& entry : program.tape(Phase::kTrainFirst)->entries()) {
    const auto* product = std::get_if<op::ScaledMatmul<TensorId>>(&entry.op);
    if (product != nullptr) {
      EXPECT_EQ(product->is_fast, entry.scope.starts_with("forward")) << entry.scope;
    }
  }
}

TEST(LlamaLinear, WithoutTrainingProductsStayInTheComputeDtype) {
  ProgramOptions options = fp8_options();
  options.generation = GenerationShape{.capacity = 16, .prefill_rows = 8};
  const Program program = program_with(options);
  for (const Phase phase : {Phase::kEval, Phase::kPrefill, Phase::kDecode}) {
    EXPECT_TRUE(ops_of<op::ScaledMatmul>(*program.tape(phase)).empty());
    EXPECT_FALSE(ops_of<op::MatmulForward>(*program.tape(phase)).empty());
  }
}

TEST(LlamaLinear, ATensorIsQuantisedOnceInBothCopiesWhereNothingIsRecomputed) {
  const Program program = program_with(fp8_options());
  std::map<int32_t, int> reads;
  for (const auto& op : ops_of<op::QuantizeFp8>(*program.tape(Phase::kTrainFirst))) {
    EXPECT_TRUE(op.q.has_value() && op.q_transposed.has_value()) << program.tensors[op.x].name;
    ++reads[op.scale.index];
  }
  EXPECT_EQ(reads.size(), 3u * kNumFp8Sites);
  for (const auto& [scale, count] : reads) EXPECT_EQ(count, 1) << program.tensors[TensorId{scale}].name;
}

TEST(LlamaLinear, EveryMagnitudeIsMeasuredOnceAMicroBatchAfterItsSlotWasCleared) {
  for (const Recompute recompute : kAllRecompute) {
    for (const Fp8Scaling scaling : {Fp8Scaling::kTensor, Fp8Scaling::kRow}) {
      ProgramOptions options = fp8_options(scaling);
      options.recompute = recompute;
      options.recompute_every = 2;
      const Program program = program_with(options);
      const Tape& tape = *program.tape(Phase::kTrainFirst);
      std::map<int32_t, int> measured;
      bool is_cleared = false;
      for (const TapeEntry& entry : tape.entries()) {
        if (const auto* clear = std::get_if<op::Clear<TensorId>>(&entry.op)) {
          is_cleared = true;
          EXPECT_EQ(clear->x, program.fp8.abs_max);
        }
        for (const TensorId id : test::written_by(entry.op)) {
          if (id == program.fp8.abs_max || program.tensors.root(id).first != program.fp8.abs_max) continue;
          EXPECT_TRUE(is_cleared);
          ++measured[id.index];
        }
      }
      EXPECT_EQ(measured.size(), 3u * kNumFp8Sites * (scaling == Fp8Scaling::kRow ? 2 : 1));
      for (const auto& [slot, count] : measured) EXPECT_EQ(count, 1) << program.tensors[TensorId{slot}].name;
    }
  }
}

TEST(LlamaLinear, NoTensorIsReadAgainForItsMagnitudeUnlessHeadNormsComeLast) {
  const Program program = program_with(fp8_options());
  EXPECT_TRUE(ops_of<op::AbsMax>(*program.tape(Phase::kTrainFirst)).empty());
  ModelConfig config = small_config();
  config.family = ModelFamily::kQwen3;
  config.has_qk_norm = true;
  const Program with_norms = make_llama_program(config, fp8_options(), PlainSizes());
  EXPECT_EQ(ops_of<op::AbsMax>(*with_norms.tape(Phase::kTrainFirst)).size(), 3u);
}

TEST(LlamaLinear, ElementsAreCountedOnceWhateverIsRecomputed) {
  for (const Recompute recompute : kAllRecompute) {
    ProgramOptions options = fp8_options();
    options.recompute = recompute;
    options.recompute_every = 2;
    const Program program = program_with(options);
    std::map<int32_t, int> counted;
    for (const auto& op : ops_of<op::QuantizeFp8>(*program.tape(Phase::kTrainFirst))) {
      counted[op.scale.index] += op.state.has_value() ? 1 : 0;
    }
    for (const auto& [scale, count] : counted) EXPECT_EQ(count, 1) << program.tensors[TensorId{scale}].name;
  }
}

/// First and last op of the tape that touch a tensor.
std::pair<int64_t, int64_t> lifetime(const Program& program, const Tape& tape, std::string_view name) {
  const PhaseLifetimes lifetimes = tape_lifetimes(tape, program.tensors);
  for (const Lifetime& lifetime : lifetimes.lifetimes) {
    if (program.tensors[lifetime.tensor].name == name) return {lifetime.first, lifetime.last};
  }
  ADD_FAILURE() << name << " is not on the tape";
  return {};
}

TEST(LlamaLinear, BackwardKeepsTheTransposedCopyInsteadOfTheInput) {
  const Program program = program_with(fp8_options());
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  int64_t first_backward = 0;
  while (!tape.entries()[static_cast<size_t>(first_backward)].scope.starts_with("backward")) ++first_backward;
  for (const char* input : {"attention_normed", "mlp_normed", "hidden"}) {
    const std::string name = std::string("train_first.layers.0.") + input;
    EXPECT_LT(lifetime(program, tape, name).second, first_backward) << name;
    EXPECT_LT(lifetime(program, tape, name + ".fp8").second, first_backward) << name;
    EXPECT_GT(lifetime(program, tape, name + ".fp8_transposed").second, first_backward) << name;
  }
}

TEST(LlamaLinear, GradientsTakeTheFormatThatWasAskedFor) {
  ProgramOptions options = fp8_options();
  options.fp8->gradient = DType::kE5M2;
  const Program program = program_with(options);
  for (const auto& op : ops_of<op::QuantizeFp8>(*program.tape(Phase::kTrainFirst))) {
    EXPECT_EQ(program.tensors[op.q].dtype, op.kind == op::Fp8Kind::kGradient ? DType::kE5M2 : DType::kE4M3);
  }
}

}  // namespace
}  // namespace litespark
