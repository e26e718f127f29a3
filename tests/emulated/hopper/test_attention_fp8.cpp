// SPDX-License-Identifier: Apache-2.0
// The Hopper attention forward on 8-bit floats, its own source on the CPU: tiles of codes through the swizzle, scores
// that become the operand of the second product in their registers, values whose keys stand in another order.
#include <gtest/gtest.h>

#include "attention_ops.h"
#include "ops/attention_fp8_cases.h"

namespace litespark::test {
namespace {

/// What sums in f32, and exponentials, are off by.
constexpr double kSums = 1e-5;

/// The kernels leave what belongs to heads that are off to their caller.
Values run(const AttentionCase& c, const OpCase<op::AttentionForwardFp8<Tensor>>& test) {
  Values found = cuda::run_hopper(test);
  cuda::clear_off_heads(c, c.out_columns(), found.tensors["out"]);
  for (const int head : c.off_heads) {
    std::fill_n(found.tensors["log_sum_exp"].begin() + head * c.rows(), c.rows(), 0.0);
  }
  return found;
}

TEST(EmulatedAttentionFp8, WholeScoresAndValuesGiveWhatTheyShould) {
  for (const AttentionCase& c : fp8_attention_cases()) {
    const auto test = whole_fp8_case(c, 5);
    expect_whole_fp8(test, run(c, test), kSums);
  }
}

TEST(EmulatedAttentionFp8, AnyValuesAreOffByRoundedProbabilitiesAlone) {
  for (const AttentionCase& c : fp8_attention_cases()) {
    const auto test = fp8_forward_case(c, 7);
    expect_near_fp8(test, run(c, test), kSums);
  }
}

TEST(EmulatedAttentionFp8, MaximaThatGrowRescaleEarlierSums) {
  const AttentionCase c{.heads = 2, .dim = 128, .lengths = {5, 420}, .dtype = DType::kBF16, .magnitude = 6};
  const auto test = fp8_forward_case(c, 2);
  expect_near_fp8(test, run(c, test), kSums);
}

TEST(EmulatedAttentionFp8, TheLargestMagnitudeOfTheOutputIsLeft) {
  auto test = fp8_forward_case(fp8_attention_cases()[1], 8);
  test.op.abs_max = shape_only(DType::kF32, {1});
  test.inputs.tensors["abs_max"] = {0};
  const Values found = cuda::run_hopper(test);
  double largest = 0;
  for (const double value : found.at("out")) largest = std::max(largest, std::abs(value));
  EXPECT_EQ(found.at("abs_max")[0], largest);
}

}  // namespace
}  // namespace litespark::test
