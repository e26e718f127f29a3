// SPDX-License-Identifier: Apache-2.0
// Embedding: exact lookup, bad ids counted, a gradient with one fixed order of additions.
#include "core/bf16_rounding.h"
#include "ops/cpu_conformance.h"
#include "reference/embedding.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

struct Case {
  int64_t tokens, vocab, channels;
  DType dtype;
  bool accumulate;
};

const Case kCases[] = {{1, 1, 1, DType::kF32, false},      {7, 5, 3, DType::kBF16, true},
                       {100, 11, 16, DType::kF32, true},   {333, 1000, 33, DType::kBF16, false},
                       {512, 64, 768, DType::kF32, false}, {0, 9, 4, DType::kF32, false}};

std::string name_of(const Case& c) {
  return std::to_string(c.tokens) + " of " + std::to_string(c.vocab) + "x" + std::to_string(c.channels) + " " +
         std::string(dtype_name(c.dtype));
}

OpCase<op::EmbeddingForward<Tensor>> forward_case(const Case& c, DType out) {
  OpCase<op::EmbeddingForward<Tensor>> test{.name = name_of(c),
                                            .op = {.out = shape_only(out, {c.tokens, c.channels}),
                                                   .table = shape_only(c.dtype, {c.vocab, c.channels}),
                                                   .ids = shape_only(DType::kI32, {c.tokens}),
                                                   .state = state_shape()},
                                            .inputs = {}};
  test.inputs.tensors["ids"] = random_integers(c.tokens, 10, c.vocab);
  fill_at_random(test, 11);
  return test;
}

OpCase<op::EmbeddingBackward<Tensor>> backward_case(const Case& c) {
  OpCase<op::EmbeddingBackward<Tensor>> test{.name = name_of(c),
                                             .op = {.dtable = shape_only(DType::kF32, {c.vocab, c.channels}),
                                                    .dout = shape_only(c.dtype, {c.tokens, c.channels}),
                                                    .ids = shape_only(DType::kI32, {c.tokens}),
                                                    .scratch = shape_only(DType::kI32, {2 * c.tokens + c.vocab + 1}),
                                                    .accumulate = c.accumulate},
                                             .inputs = {}};
  test.inputs.tensors["ids"] = random_integers(c.tokens, 12, c.vocab);
  fill_at_random(test, 13);
  return test;
}

TEST(Embedding, LooksRowsUpExactly) {
  for (const Case& c : kCases) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      const auto test = forward_case(c, out);
      expect_exact(test.name, execute_on_cpu(test), reference::evaluate<double>(test.op, test.inputs));
    }
  }
}

// A table in two halves is looked up as the f32 table that they make.
TEST(Embedding, LooksUpTheHalvesOfAnF32Table) {
  for (const Case& c : kCases) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      const auto whole = forward_case({c.tokens, c.vocab, c.channels, DType::kF32, false}, out);
      auto test = whole;
      test.op.table = shape_only(DType::kBF16, test.op.table.shape);
      test.op.remainder = shape_only(DType::kU16, test.op.table.shape);
      std::vector<double>& table = test.inputs.tensors["table"];
      std::vector<double>& remainder = test.inputs.tensors["remainder"];
      for (double& value : table) {
        const SplitFloat split = split_float(static_cast<float>(value));
        value = static_cast<double>(to_float(split.weight));
        remainder.push_back(static_cast<double>(split.remainder));
      }
      EXPECT_EQ(execute_on_cpu(test).bytes.at("out"), execute_on_cpu(whole).bytes.at("out")) << test.name;
    }
  }
}

// fault:D18: an id outside the vocabulary never reads outside the table; it is counted and its row is zero.
TEST(Embedding, BadIdsAreCountedAndGiveZeroRows) {
  auto test =
      forward_case({.tokens = 5, .vocab = 4, .channels = 20, .dtype = DType::kF32, .accumulate = false}, DType::kBF16);
  test.inputs.tensors["ids"] = {3, 4, -1, 2147483647, -2147483648.0};
  test.inputs.state.bad_tokens = 10;
  const Execution execution = execute_on_cpu(test);
  EXPECT_EQ(execution.outputs.state.bad_tokens, 14);
  expect_exact(test.name, execution, reference::evaluate<double>(test.op, test.inputs));
}

TEST(Embedding, GradientKeepsTheErrorRule) {
  for (const Case& c : kCases) {
    const auto test = backward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(Embedding, GradientAddsTokensInTheirOrder) {
  OpCase<op::EmbeddingBackward<Tensor>> test =
      backward_case({.tokens = 4, .vocab = 2, .channels = 1, .dtype = DType::kF32, .accumulate = false});
  test.inputs.tensors["ids"] = {1, 1, 1, 1};
  // In this order 1 is lost against 2^24 and only the last one survives.
  test.inputs.tensors["dout"] = {0x1p24, 1, -0x1p24, 1};
  EXPECT_EQ(execute_on_cpu(test).outputs.at("dtable"), (std::vector<double>{0, 1}));
}

TEST(Embedding, GradientLeavesBadIdsOut) {
  auto test = backward_case({.tokens = 4, .vocab = 3, .channels = 5, .dtype = DType::kF32, .accumulate = true});
  test.inputs.tensors["ids"] = {3, 0, -1, -100};
  const Execution execution = execute_on_cpu(test);
  expect_exact(test.name, execution, reference::evaluate<float>(test.op, test.inputs));
}

TEST(Embedding, ReferenceBackwardIsTheDerivativeOfItsForward) {
  const Case c{.tokens = 5, .vocab = 3, .channels = 2, .dtype = DType::kF64, .accumulate = false};
  const auto forward = forward_case(c, DType::kF64);
  auto backward = backward_case(c);
  backward.inputs.tensors["ids"] = forward.inputs.at("ids");
  expect_gradient("dtable", forward.inputs.at("table"),
                  reference::evaluate<double>(backward.op, backward.inputs).at("dtable"),
                  [&](const std::vector<double>& table) {
                    Values inputs = forward.inputs;
                    inputs.tensors["table"] = table;
                    return dot(reference::evaluate<double>(forward.op, inputs).at("out"), backward.inputs.at("dout"));
                  });
}

}  // namespace
}  // namespace litespark::test
