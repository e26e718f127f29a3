// SPDX-License-Identifier: Apache-2.0
// Embedding on the GPU: exact lookup, bad ids, and a gradient whose sort must hold for rare, frequent and single ids.
#include "ops/cuda/cuda_conformance.h"
#include "reference/embedding.h"

namespace litespark::test {
namespace {

struct Case {
  int64_t tokens, vocab, columns;
  DType dtype;
  bool accumulate;
};

/// The last three have runs on both sides of 64 equal ids, one id for every token, and more than one scan tile of ids.
const Case kCases[] = {{1, 1, 1, DType::kF32, false},       {7, 5, 3, DType::kBF16, true},
                       {333, 1000, 33, DType::kBF16, true}, {512, 64, 768, DType::kF32, false},
                       {3000, 40, 264, DType::kBF16, true}, {5000, 1, 72, DType::kBF16, false},
                       {2500, 9001, 16, DType::kF32, true}, {0, 9, 4, DType::kF32, false}};

OpCase<op::EmbeddingForward<Tensor>> forward_case(const Case& c, DType out) {
  OpCase<op::EmbeddingForward<Tensor>> test{.name = std::to_string(c.tokens) + " of " + std::to_string(c.vocab),
                                            .op = {.out = shape_only(out, {c.tokens, c.columns}),
                                                   .table = shape_only(c.dtype, {c.vocab, c.columns}),
                                                   .ids = shape_only(DType::kI32, {c.tokens}),
                                                   .state = state_shape()},
                                            .inputs = {}};
  test.inputs.tensors["ids"] = random_integers(c.tokens, 10, c.vocab);
  fill_at_random(test, 11);
  return test;
}

OpCase<op::EmbeddingBackward<Tensor>> backward_case(const Case& c) {
  OpCase<op::EmbeddingBackward<Tensor>> test{.name = std::to_string(c.tokens) + " of " + std::to_string(c.vocab),
                                             .op = {.dtable = shape_only(DType::kF32, {c.vocab, c.columns}),
                                                    .dout = shape_only(c.dtype, {c.tokens, c.columns}),
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
      expect_exact(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs));
    }
  }
}

// fault:D18: an id outside the vocabulary never reads outside the table; it is counted and its row is zero.
TEST(Embedding, BadIdsAreCountedAndGiveZeroRows) {
  for (const int64_t columns : {5, 24}) {
    auto test = forward_case({5, 4, columns, DType::kF32, false}, DType::kBF16);
    test.inputs.tensors["ids"] = {3, 4, -1, 2147483647, -2147483648.0};
    test.inputs.state.bad_tokens = 10;
    const Execution execution = execute_on_cuda(test);
    EXPECT_EQ(execution.outputs.state.bad_tokens, 14);
    expect_exact(test.name, execution, reference::evaluate<double>(test.op, test.inputs));
  }
}

TEST(Embedding, GradientKeepsTheErrorRule) {
  for (const Case& c : kCases) {
    const auto test = backward_case(c);
    expect_kernel_rule(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs),
                       reference::evaluate<float>(test.op, test.inputs));
  }
}

// Small integers add up exactly in any order, so a token that is lost, doubled or sent to a wrong row shows.
TEST(Embedding, GradientCountsEveryTokenOnce) {
  for (const Case& c : kCases) {
    if (c.tokens == 0) continue;
    auto test = backward_case(c);
    // Half of the tokens share one id.
    for (size_t n = 0; n < static_cast<size_t>(c.tokens); n += 2) test.inputs.tensors["ids"][n] = 0;
    test.inputs.tensors["dout"] = random_integers(c.tokens * c.columns, 20, 8);
    test.inputs.tensors["dtable"] = random_integers(c.vocab * c.columns, 21, 8);
    expect_exact(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs));
  }
}

TEST(Embedding, GradientLeavesBadIdsOut) {
  auto test = backward_case({4, 3, 8, DType::kF32, true});
  test.inputs.tensors["ids"] = {3, 0, -1, -100};
  expect_exact(test.name, execute_on_cuda(test), reference::evaluate<float>(test.op, test.inputs));
}

}  // namespace
}  // namespace litespark::test
