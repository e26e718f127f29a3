// SPDX-License-Identifier: Apache-2.0
// Attention's forward on 8-bit floats in a program: what measures, what is copied and how long copies live, what stays
// as it was, and what is refused.
#include <gtest/gtest.h>

#include "core/error.h"
#include "spec/fp8_attention.h"
#include "support/error_text.h"
#include "support/plain_sizes.h"
#include "support/tape_reader.h"

namespace litespark {
namespace {

using test::names_of;
using test::ops_of;
using test::small_config;
using test::small_options;

ProgramOptions attention_options() {
  ProgramOptions options = small_options();
  options.compute = options.residual = DType::kBF16;
  options.fp8_attention = Fp8AttentionOptions{.allows_emulation = true};
  return options;
}

Program attention_program(const ProgramOptions& options) {
  return make_llama_program(small_config(), options, PlainSizes());
}

TEST(Fp8Attention, TheRotationMeasuresWhatTheCopiesAreScaledBy) {
  const Program program = attention_program(attention_options());
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  EXPECT_EQ(ops_of<op::Clear>(tape).at(0).x, program.fp8.attention_abs_max);
  const auto quantised = ops_of<op::QuantizeQkv>(tape);
  ASSERT_EQ(quantised.size(), 3u);
  size_t layer = 0;
  for (const auto& rope : ops_of<op::Rope>(tape)) {
    if (rope.inverse) {
      EXPECT_FALSE(rope.abs_max.has_value());
      continue;
    }
    const auto& copies = quantised.at(layer);
    EXPECT_EQ(rope.abs_max, program.fp8.attention.at(layer).abs_max);
    EXPECT_EQ(copies.abs_max, rope.abs_max);
    EXPECT_EQ(copies.qkv, rope.qkv);
    EXPECT_EQ(copies.state, program.state);
    ++layer;
  }
  EXPECT_EQ(layer, 3u);
}

TEST(Fp8Attention, ForwardReadsCopiesOfAByteAnElementAndBackwardReadsNone) {
  const Program program = attention_program(attention_options());
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  EXPECT_TRUE(ops_of<op::AttentionForward>(tape).empty());
  const auto forward = ops_of<op::AttentionForwardFp8>(tape);
  const auto quantised = ops_of<op::QuantizeQkv>(tape);
  const auto backward = ops_of<op::AttentionBackward>(tape);
  ASSERT_EQ(forward.size(), 3u);
  ASSERT_EQ(backward.size(), 3u);
  for (size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(forward[layer].queries_keys, quantised[layer].queries_keys);
    EXPECT_EQ(forward[layer].values, quantised[layer].values);
    EXPECT_EQ(forward[layer].scale, quantised[layer].scale);
    const TensorInfo& queries_keys = program.tensors[forward[layer].queries_keys];
    const TensorInfo& values = program.tensors[forward[layer].values];
    EXPECT_EQ(queries_keys.shape, (Shape{64, 48}));
    EXPECT_EQ(values.shape, (Shape{16, 64}));
    for (const TensorInfo* info : {&queries_keys, &values}) {
      EXPECT_EQ(info->dtype, DType::kE4M3);
      EXPECT_EQ(info->storage, Storage::kArena);
    }
    EXPECT_EQ(backward[2 - layer].qkv, quantised[layer].qkv);
    EXPECT_EQ(backward[2 - layer].out, forward[layer].out);
    EXPECT_EQ(backward[2 - layer].log_sum_exp, forward[layer].log_sum_exp);
  }
}

TEST(Fp8Attention, EvaluationAndTheRestOfTheProgramStayAsTheyAre) {
  ProgramOptions options = attention_options();
  const Program program = attention_program(options);
  options.fp8_attention.reset();
  const Program plain = attention_program(options);
  EXPECT_FALSE(plain.fp8.attention_abs_max.has_value());
  EXPECT_EQ(ops_of<op::AttentionForward>(*program.tape(Phase::kEval)).size(), 3u);
  EXPECT_TRUE(ops_of<op::QuantizeQkv>(*program.tape(Phase::kEval)).empty());
  const auto backward = [](const Program& any) { return names_of(*any.tape(Phase::kTrainFirst), "backward", 1); };
  EXPECT_EQ(backward(program), backward(plain));
  // Copies live between two ops, where other tensors of the arena do not yet.
  EXPECT_EQ(program.memory->arena_bytes(), plain.memory->arena_bytes());
}

TEST(Fp8Attention, WhatIsComputedAgainIsCopiedAgainWithTheMagnitudesOfForward) {
  ProgramOptions options = attention_options();
  options.recompute = Recompute::kBlock;
  const Program program = attention_program(options);
  const Tape& tape = *program.tape(Phase::kTrainFirst);
  const auto quantised = ops_of<op::QuantizeQkv>(tape);
  ASSERT_EQ(quantised.size(), 6u);
  int measuring = 0;
  for (const auto& rope : ops_of<op::Rope>(tape)) measuring += rope.abs_max.has_value() ? 1 : 0;
  EXPECT_EQ(measuring, 3);
  for (size_t i = 3; i < 6; ++i) {
    EXPECT_FALSE(quantised[i].state.has_value()) << "counted twice";
    EXPECT_EQ(quantised[i].abs_max, quantised[5 - i].abs_max);
  }
  options.recompute = Recompute::kKeepAttention;
  EXPECT_EQ(ops_of<op::QuantizeQkv>(*attention_program(options).tape(Phase::kTrainFirst)).size(), 3u);
}

TEST(Fp8Attention, SlotsNeverOverlap) {
  const Program program = attention_program(attention_options());
  for (size_t layer = 0; layer < 3; ++layer) {
    for (const TensorId id : {program.fp8.attention[layer].abs_max, program.fp8.attention[layer].scale}) {
      EXPECT_EQ(program.tensors[id].shape.num_elements(), 1);
      EXPECT_EQ(program.tensors.root(id).second, static_cast<int64_t>(layer) * 16);
    }
  }
}

std::string attention_refusal(const std::function<void(ModelConfig&, ProgramOptions&)>& change,
                              const BackendSizes& sizes = PlainSizes()) {
  ModelConfig config = small_config();
  ProgramOptions options = attention_options();
  change(config, options);
  return error_text<ConfigError>([&] { make_llama_program(config, options, sizes); });
}

void expect_named(const std::string& text, const char* word) {
  EXPECT_NE(text.find("precision.attention"), std::string::npos) << text;
  EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(Fp8Attention, WhatItDoesNotFitIsRefusedByName) {
  expect_named(attention_refusal([](ModelConfig&, ProgramOptions& o) { o.compute = o.residual = DType::kF32; }),
               "precision.compute");
  expect_named(attention_refusal([](ModelConfig& c, ProgramOptions&) { c.positions = Positions::kAlibi; }),
               "model.positions");
  expect_named(attention_refusal([](ModelConfig&, ProgramOptions& o) { o.data_ranks = o.context_ranks = 2; }),
               "cluster.cp = 2");
  expect_named(attention_refusal([](ModelConfig&, ProgramOptions& o) { o.tensor_ranks = 2; }), "cluster.tp = 2");
  expect_named(attention_refusal([](ModelConfig&, ProgramOptions& o) {
                 o.stages = 2;
                 o.micro_batches = 1;
               }),
               "cluster.pp = 2");
}

struct AttentionSizes final : PlainSizes {
  explicit AttentionSizes(Fp8Support given) : support(given) {}
  Fp8Support fp8_attention_support(const op::AttentionShape& shape) const override {
    EXPECT_EQ(shape.head_dim, 8);
    return support;
  }
  Fp8Support support;
};

TEST(Fp8Attention, ADeviceWithoutTheKernelIsRefusedAndAnEmulationMustBeAskedFor) {
  const auto as_it_is = [](ModelConfig&, ProgramOptions&) {};
  const auto natively = [](ModelConfig&, ProgramOptions& o) { o.fp8_attention->allows_emulation = false; };
  expect_named(attention_refusal(as_it_is, AttentionSizes(Fp8Support::kNone)), "model.head_dim = 8");
  expect_named(attention_refusal(natively, AttentionSizes(Fp8Support::kEmulated)), "fp8-emulated");
  ProgramOptions options = attention_options();
  EXPECT_NO_THROW(make_llama_program(small_config(), options, AttentionSizes(Fp8Support::kEmulated)));
  options.fp8_attention->allows_emulation = false;
  EXPECT_NO_THROW(make_llama_program(small_config(), options, AttentionSizes(Fp8Support::kNative)));
}

}  // namespace
}  // namespace litespark
