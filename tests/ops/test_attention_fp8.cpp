// SPDX-License-Identifier: Apache-2.0
// Attention's forward on 8-bit floats on the CPU: codes and counts, the order of the transposed values, and results
// within what rounded probabilities explain.
#include "ops/attention_fp8_cases.h"
#include "ops/cpu_conformance.h"

namespace litespark::test {
namespace {

/// What sums in f32, and exponentials, are off by.
constexpr double kSums = 1e-5;

TEST(AttentionFp8, TransposedValuesStandInTheOrderOfAThreadsScores) {
  const int64_t order[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
  for (int64_t column = 0; column < 48; ++column) {
    EXPECT_EQ(op::fp8_value_column(column / 16 * 16 + order[column % 16]), column);
  }
  EXPECT_EQ(op::fp8_value_columns(0), 0);
  EXPECT_EQ(op::fp8_value_columns(1), 16);
  EXPECT_EQ(op::fp8_value_columns(32), 32);
}

TEST(AttentionFp8, CopiesHoldTheNearestCodes) {
  std::vector<AttentionCase> cases = fp8_attention_cases();
  cases.push_back({.heads = 3, .kv_heads = 1, .dim = 7, .lengths = {5, 14}, .dtype = DType::kF32});
  cases.push_back({.heads = 4, .kv_heads = 2, .dim = 40, .lengths = {32}, .dtype = DType::kF32, .magnitude = 1e-3});
  for (const AttentionCase& c : cases) {
    const auto test = quantize_qkv_case(c, c.inputs(3).at("qkv"));
    expect_quantized_qkv(test, execute_with_threads(usable_isas().back(), test));
  }
}

TEST(AttentionFp8, AnInfinityIsCountedAndMakesAllNan) {
  const AttentionCase c{.dim = 16, .lengths = {20}};
  std::vector<double> qkv = c.inputs(1).at("qkv");
  qkv[100] = static_cast<double>(INFINITY);
  const auto quantize = quantize_qkv_case(c, qkv);
  const Execution copies = execute(cpu_backend(CpuIsa::kGeneric, 2), quantize);
  EXPECT_EQ(copies.outputs.state.fp8_overflows, 1);
  EXPECT_TRUE(std::isnan(copies.outputs.at("scale")[0]));
  auto test = fp8_forward_case(c, 1);
  test.inputs.tensors["scale"] = {static_cast<double>(NAN)};
  const Execution execution = execute(cpu_backend(CpuIsa::kGeneric, 2), test);
  for (const double value : execution.outputs.at("out")) ASSERT_TRUE(std::isnan(value));
}

TEST(AttentionFp8, WholeScoresAndValuesGiveWhatTheyShould) {
  for (const AttentionCase& c : fp8_attention_cases()) {
    const auto test = whole_fp8_case(c, 5);
    expect_whole_fp8(test, execute_with_threads(usable_isas().back(), test).outputs, kSums);
  }
}

TEST(AttentionFp8, AnyValuesAreOffByRoundedProbabilitiesAlone) {
  for (const AttentionCase& c : fp8_attention_cases()) {
    const auto test = fp8_forward_case(c, 7);
    expect_near_fp8(test, execute_with_threads(usable_isas().back(), test).outputs, kSums);
  }
}

TEST(AttentionFp8, TheLargestMagnitudeOfTheOutputIsLeft) {
  auto test = fp8_forward_case(fp8_attention_cases()[1], 8);
  test.op.abs_max = shape_only(DType::kF32, {1});
  test.inputs.tensors["abs_max"] = {0};
  const Values found = execute(cpu_backend(usable_isas().back(), 2), test).outputs;
  double largest = 0;
  for (const double value : found.at("out")) largest = std::max(largest, std::abs(value));
  EXPECT_EQ(found.at("abs_max")[0], largest);
}

}  // namespace
}  // namespace litespark::test
