// SPDX-License-Identifier: Apache-2.0
// Embedding on the GPU: exact lookup, bad ids, and a gradient whose sort must hold for rare, frequent and single ids.
#include <iterator>

#include "ops/cuda/cuda_conformance.h"
#include "ops/embedding_cases.h"
#include "reference/embedding.h"

namespace litespark::test {
namespace {

std::vector<EmbeddingCase> all_cases() {
  std::vector<EmbeddingCase> cases(std::begin(kEmbeddingCases), std::end(kEmbeddingCases));
  cases.insert(cases.end(), std::begin(kLongEmbeddingCases), std::end(kLongEmbeddingCases));
  return cases;
}

TEST(Embedding, LooksRowsUpExactly) {
  for (const EmbeddingCase& c : all_cases()) {
    for (const DType out : {DType::kF32, DType::kBF16}) {
      const auto test = embedding_forward_case(c, out);
      expect_exact(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs));
    }
  }
}

// fault:D18: an id outside the vocabulary never reads outside the table; it is counted and its row is zero.
TEST(Embedding, BadIdsAreCountedAndGiveZeroRows) {
  for (const int64_t columns : {5, 24}) {
    const auto test = bad_ids_case(columns);
    const Execution execution = execute_on_cuda(test);
    EXPECT_EQ(execution.outputs.state.bad_tokens, 14);
    expect_exact(test.name, execution, reference::evaluate<double>(test.op, test.inputs));
  }
}

TEST(Embedding, GradientKeepsTheErrorRule) {
  for (const EmbeddingCase& c : all_cases()) {
    const auto test = embedding_backward_case(c);
    expect_kernel_rule(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs),
                       reference::evaluate<float>(test.op, test.inputs));
  }
}

// Small integers add up exactly in any order, so a token that is lost, doubled or sent to a wrong row shows.
TEST(Embedding, GradientCountsEveryTokenOnce) {
  for (const EmbeddingCase& c : all_cases()) {
    if (c.tokens == 0) continue;
    auto test = embedding_backward_case(c);
    // Half of the tokens share one id.
    for (size_t n = 0; n < static_cast<size_t>(c.tokens); n += 2) test.inputs.tensors["ids"][n] = 0;
    test.inputs.tensors["dout"] = random_integers(c.tokens * c.columns, 20, 8);
    test.inputs.tensors["dtable"] = random_integers(c.vocab * c.columns, 21, 8);
    expect_exact(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs));
  }
}

TEST(Embedding, GradientLeavesBadIdsOut) {
  auto test = embedding_backward_case({4, 3, 8, DType::kF32, true});
  test.inputs.tensors["ids"] = {3, 0, -1, -100};
  expect_exact(test.name, execute_on_cuda(test), reference::evaluate<float>(test.op, test.inputs));
}

TEST(Embedding, PiecesOfATableAreTheWhole) {
  for (const EmbeddingCase& c : {EmbeddingCase{100, 11, 16, DType::kF32, true}, {333, 1000, 33, DType::kBF16, false}}) {
    for (const int64_t rows : {4, 6, 11, 400}) {
      expect_pieces_to_be_the_whole(c, rows, [](const auto& test) { return execute_on_cuda(test); });
    }
  }
}

}  // namespace
}  // namespace litespark::test
