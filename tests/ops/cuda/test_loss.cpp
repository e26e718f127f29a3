// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on the GPU: rows held in shared memory in whole, in part and not at all, extreme logits, bad labels.
#include <cmath>

#include "ops/cuda/cuda_conformance.h"
#include "reference/loss.h"

namespace litespark::test {
namespace {

struct Case {
  int64_t rows, vocab;
  DType dtype;
  float z_coefficient;
  bool has_log_sum_exp, write_gradient;
  double scale;  ///< of the random logits
};

/// 128,256 is Llama 3's vocabulary; 200,000 does not fit a block's shared memory; f32 halves what is held.
const Case kCases[] = {{1, 1, DType::kF32, 0, true, true, 1},         {3, 7, DType::kF32, 0.01f, true, true, 2},
                       {5, 16, DType::kBF16, 0, false, true, 3},      {9, 33, DType::kF32, 0, true, false, 10},
                       {64, 255, DType::kBF16, 1e-4f, true, true, 4}, {33, 4096, DType::kBF16, 1e-4f, true, true, 2},
                       {17, 8200, DType::kF32, 0, false, true, 2},    {7, 32000, DType::kF32, 0, true, true, 5},
                       {7, 50257, DType::kBF16, 0, true, true, 5},    {6, 128256, DType::kBF16, 0, true, true, 4},
                       {4, 128256, DType::kF32, 0, true, true, 4},    {3, 200000, DType::kBF16, 1e-4f, true, true, 3}};

OpCase<op::CrossEntropy<Tensor>> loss_case(const Case& c) {
  OpCase<op::CrossEntropy<Tensor>> test{
      .name = std::to_string(c.rows) + "x" + std::to_string(c.vocab) + " " + std::string(dtype_name(c.dtype)),
      .op = {.losses = shape_only(DType::kF32, {c.rows}),
             .log_sum_exp = c.has_log_sum_exp ? shape_only(DType::kF32, {c.rows}) : Tensor{},
             .logits = shape_only(c.dtype, {c.rows, c.vocab}),
             .labels = shape_only(DType::kI32, {c.rows}),
             .state = state_shape(),
             .z_coefficient = c.z_coefficient,
             .write_gradient = c.write_gradient},
      .inputs = {}};
  test.inputs.tensors["logits"] = random_normal(c.dtype, c.rows * c.vocab, 14, c.scale);
  test.inputs.tensors["labels"] = random_integers(c.rows, 15, c.vocab);
  for (size_t n = 4; n < static_cast<size_t>(c.rows); n += 5) test.inputs.tensors["labels"][n] = op::kIgnoredLabel;
  return test;
}

TEST(Loss, CrossEntropyKeepsTheErrorRule) {
  for (const Case& c : kCases) {
    const auto test = loss_case(c);
    const Execution execution = execute_on_cuda(test);
    expect_kernel_rule(test.name, execution, reference::evaluate<double>(test.op, test.inputs),
                       reference::evaluate<float>(test.op, test.inputs));
    EXPECT_EQ(execution.outputs.state.bad_tokens, 0);
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
    EXPECT_TRUE(std::isnan(execute(cuda_backend(), test).outputs.at("losses")[0])) << vocab;
  }
}

// fault:C11 and fault:D18: ignored and bad labels have no loss and no gradient; only the bad ones are counted.
TEST(Loss, IgnoredAndBadLabelsHaveNoGradient) {
  for (const int64_t vocab : {7, 32, 4096}) {
    auto test = loss_case({4, vocab, DType::kBF16, 0.01f, false, true, 1});
    test.inputs.tensors["labels"] = {static_cast<double>(vocab), -1, 2147483647, op::kIgnoredLabel};
    const Execution execution = execute_on_cuda(test);
    EXPECT_EQ(execution.outputs.state.bad_tokens, 3);
    for (const double loss : execution.outputs.at("losses")) ASSERT_EQ(loss, 0.0);
    for (const double slope : execution.outputs.at("logits")) ASSERT_EQ(slope, 0.0);
  }
}

TEST(Loss, ReduceSumsScoredRowsOnly) {
  for (const int64_t rows : {1, 1000, 5000}) {
    OpCase<op::LossReduce<Tensor>> test{.name = "reduce",
                                        .op = {.state = state_shape(),
                                               .losses = shape_only(DType::kF32, {rows}),
                                               .log_sum_exp = shape_only(DType::kF32, {rows}),
                                               .labels = shape_only(DType::kI32, {rows}),
                                               .z_coefficient = 0.5f},
                                        .inputs = {}};
    fill_at_random(test, 16);
    test.inputs.tensors["labels"] = random_integers(rows, 17, 50);
    for (size_t n = 0; n < static_cast<size_t>(rows); n += 3) test.inputs.tensors["labels"][n] = op::kIgnoredLabel;
    test.inputs.state = {.loss_sum = 3, .z_loss_sum = 2, .supervised_tokens = 100};
    const StepState state = execute_on_cuda(test).outputs.state;
    const StepState expected = reference::evaluate<double>(test.op, test.inputs).state;
    EXPECT_EQ(state.supervised_tokens, expected.supervised_tokens);
    EXPECT_NEAR(state.loss_sum, expected.loss_sum, 1e-10);
    EXPECT_NEAR(state.z_loss_sum, expected.z_loss_sum, 1e-10);
  }
}

}  // namespace
}  // namespace litespark::test
