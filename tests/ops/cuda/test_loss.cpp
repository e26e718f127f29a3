// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on the GPU: rows held in shared memory in whole, in part and not at all, extreme logits, bad labels.
#include <cmath>
#include <span>

#include "ops/cuda/cuda_conformance.h"
#include "ops/cut_loss_cases.h"
#include "ops/loss_cases.h"
#include "reference/loss.h"

namespace litespark::test {
namespace {

/// A block a row, also where rows could pass through shared memory.
Backend& block_backend() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend({.kernels = {.loss_through_ring = false}});
  return *backend;
}

// The plain implementation is the sum in f32, one element after another, on the host.
TEST(Loss, CrossEntropyKeepsTheErrorRule) {
  for (const std::span<const LossCase> cases : {std::span<const LossCase>(kLossCases), {kLongLossCases}}) {
    for (const LossCase& c : cases) {
      const auto test = loss_case(c);
      const Values truth = reference::evaluate<double>(test.op, test.inputs);
      const Values plain = reference::evaluate<float>(test.op, test.inputs);
      for (Backend* backend : {&cuda_backend(), &block_backend()}) {
        const Execution execution = execute_on_cuda(test, *backend);
        expect_kernel_rule(test.name + (backend == &cuda_backend() ? "" : " in one block"), execution, truth, plain);
        EXPECT_EQ(execution.outputs.state.bad_tokens, 0);
      }
    }
  }
}

// report:B26: logits of +-1e4 overflow a naive exp; one-hot rows have a loss of exactly 0.
TEST(Loss, ExtremeLogitsGiveExactLosses) {
  auto test = loss_case({1, 40, DType::kF32, 0, true, true, 1});
  test.inputs.tensors["logits"].assign(40, -1e4);
  test.inputs.tensors["logits"][7] = 1e4;
  test.inputs.tensors["labels"] = {7};
  const Execution right = execute_on_cuda(test);
  EXPECT_EQ(right.outputs.at("losses")[0], 0.0);
  for (const double slope : right.outputs.at("logits")) EXPECT_EQ(slope, 0.0);
  test.inputs.tensors["labels"] = {8};
  const Execution wrong = execute_on_cuda(test);
  EXPECT_EQ(wrong.outputs.at("losses")[0], 2e4);
  EXPECT_EQ(wrong.outputs.at("logits")[7], 1.0);
  EXPECT_EQ(wrong.outputs.at("logits")[8], -1.0);
}

TEST(Loss, NanLogitsGiveANanLoss) {
  for (const int64_t vocab : {20, 32, 128256}) {
    auto test = loss_case({1, vocab, DType::kBF16, 0, true, true, 1});
    test.inputs.tensors["logits"][17] = NAN;
    for (Backend* backend : {&cuda_backend(), &block_backend()}) {
      EXPECT_TRUE(std::isnan(execute(*backend, test).outputs.at("losses")[0])) << vocab;
    }
  }
}

// fault:C11 and fault:D18: ignored and bad labels have no loss and no gradient; only the bad ones are counted.
TEST(Loss, IgnoredAndBadLabelsHaveNoGradient) {
  for (const int64_t vocab : {7, 32, 4096, 20000}) {
    auto test = loss_case({4, vocab, DType::kBF16, 0.01f, false, true, 1});
    test.inputs.tensors["labels"] = {static_cast<double>(vocab), -1, 2147483647, op::kIgnoredLabel};
    for (Backend* backend : {&cuda_backend(), &block_backend()}) {
      const Execution execution = execute_on_cuda(test, *backend);
      EXPECT_EQ(execution.outputs.state.bad_tokens, 3);
      for (const double loss : execution.outputs.at("losses")) ASSERT_EQ(loss, 0.0);
      for (const double slope : execution.outputs.at("logits")) ASSERT_EQ(slope, 0.0);
    }
  }
}

TEST(Loss, RanksThatShareTheVocabularyKeepTheErrorRuleOfOne) {
  for (const CutLossCase& c : kCutLossCases) {
    const auto test = loss_case(c.whole);
    const Execution found = join_cut_loss(cuda_backend(), c, test.inputs);
    expect_kernel_rule(test.name + ", ranks: " + std::to_string(c.ranks), found,
                       reference::evaluate<double>(test.op, test.inputs),
                       reference::evaluate<float>(test.op, test.inputs));
    EXPECT_EQ(found.outputs.state.bad_tokens, 0);
  }
}

TEST(Loss, ReduceSumsScoredRowsOnly) {
  for (const int64_t rows : {1, 1000, 5000}) {
    const auto test = loss_reduce_case(rows);
    const StepState state = execute_on_cuda(test).outputs.state;
    const StepState expected = reference::evaluate<double>(test.op, test.inputs).state;
    EXPECT_EQ(state.supervised_tokens, expected.supervised_tokens);
    EXPECT_NEAR(state.loss_sum, expected.loss_sum, 1e-10);
    EXPECT_NEAR(state.z_loss_sum, expected.z_loss_sum, 1e-10);
  }
}

}  // namespace
}  // namespace litespark::test
