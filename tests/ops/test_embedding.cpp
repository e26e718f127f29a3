// SPDX-License-Identifier: Apache-2.0
// Embedding: exact lookup, bad ids counted, a gradient with one fixed order of additions.
#include "core/bf16_rounding.h"
#include "ops/cpu_conformance.h"
#include "ops/embedding_cases.h"
#include "reference/embedding.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

TEST(Embedding, LooksRowsUpExactly) {
  for (const EmbeddingCase& c : kEmbeddingCases) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      const auto test = embedding_forward_case(c, out);
      expect_exact(test.name, execute_on_cpu(test), reference::evaluate<double>(test.op, test.inputs));
    }
  }
}

// A table in two halves is looked up as the f32 table that they make.
TEST(Embedding, LooksUpTheHalvesOfAnF32Table) {
  for (const EmbeddingCase& c : kEmbeddingCases) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      const auto whole = embedding_forward_case({c.tokens, c.vocab, c.columns, DType::kF32, false}, out);
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
  const auto test = bad_ids_case(20);
  const Execution execution = execute_on_cpu(test);
  EXPECT_EQ(execution.outputs.state.bad_tokens, 14);
  expect_exact(test.name, execution, reference::evaluate<double>(test.op, test.inputs));
}

TEST(Embedding, GradientKeepsTheErrorRule) {
  for (const EmbeddingCase& c : kEmbeddingCases) {
    const auto test = embedding_backward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(Embedding, GradientAddsTokensInTheirOrder) {
  OpCase<op::EmbeddingBackward<Tensor>> test =
      embedding_backward_case({.tokens = 4, .vocab = 2, .columns = 1, .dtype = DType::kF32, .accumulate = false});
  test.inputs.tensors["ids"] = {1, 1, 1, 1};
  // In this order 1 is lost against 2^24 and only the last one survives.
  test.inputs.tensors["dout"] = {0x1p24, 1, -0x1p24, 1};
  EXPECT_EQ(execute_on_cpu(test).outputs.at("dtable"), (std::vector<double>{0, 1}));
}

TEST(Embedding, GradientLeavesBadIdsOut) {
  auto test =
      embedding_backward_case({.tokens = 4, .vocab = 3, .columns = 5, .dtype = DType::kF32, .accumulate = true});
  test.inputs.tensors["ids"] = {3, 0, -1, -100};
  const Execution execution = execute_on_cpu(test);
  expect_exact(test.name, execution, reference::evaluate<float>(test.op, test.inputs));
}

TEST(Embedding, ReferenceBackwardIsTheDerivativeOfItsForward) {
  const EmbeddingCase c{.tokens = 5, .vocab = 3, .columns = 2, .dtype = DType::kF64, .accumulate = false};
  const auto forward = embedding_forward_case(c, DType::kF64);
  auto backward = embedding_backward_case(c);
  backward.inputs.tensors["ids"] = forward.inputs.at("ids");
  expect_gradient("dtable", forward.inputs.at("table"),
                  reference::evaluate<double>(backward.op, backward.inputs).at("dtable"),
                  [&](const std::vector<double>& table) {
                    Values inputs = forward.inputs;
                    inputs.tensors["table"] = table;
                    return dot(reference::evaluate<double>(forward.op, inputs).at("out"), backward.inputs.at("dout"));
                  });
}

TEST(Embedding, PiecesOfATableAreTheWhole) {
  for (const EmbeddingCase& c : {EmbeddingCase{100, 11, 16, DType::kF32, true}, {333, 1000, 33, DType::kBF16, false}}) {
    for (const int64_t rows : {4, 6, 11, 400}) {
      expect_pieces_to_be_the_whole(
          c, rows, [](const auto& test) { return execute(cpu_backend(usable_isas().back(), 2), test); });
    }
  }
}

}  // namespace
}  // namespace litespark::test
