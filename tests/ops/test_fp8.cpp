// SPDX-License-Identifier: Apache-2.0
// 8-bit floats on the CPU: magnitudes, codes of both copies, counts, products; and the magnitudes that other ops leave.
#include <cmath>

#include "ops/adamw_forms.h"
#include "ops/attention_cases.h"
#include "ops/cpu_conformance.h"
#include "ops/fp8_cases.h"
#include "ops/rms_norm_cases.h"
#include "ops/rope_cases.h"
#include "ops/swiglu_cases.h"

namespace litespark::test {
namespace {

TEST(Fp8, AbsMaxFindsTheLargestMagnitudes) {
  for (const Fp8Case& c : fp8_cases()) {
    const auto test = abs_max_case(c);
    const Execution execution = execute_on_cpu(test);
    const Magnitudes expected = magnitudes_of(c, test.inputs.at("x"));
    EXPECT_EQ(execution.outputs.at("abs_max"), expected.rows) << test.name;
    if (c.by_row) {
      EXPECT_EQ(execution.outputs.at("column_abs_max"), expected.columns) << test.name;
    }
  }
}

TEST(Fp8, AbsMaxOnlyEverRises) {
  auto test = abs_max_case({.rows = 3, .columns = 7});
  test.inputs.tensors["abs_max"] = {1e6};
  EXPECT_EQ(execute_on_cpu(test).outputs.at("abs_max")[0], 1e6);
}

TEST(Fp8, AbsMaxTakesInfAndNanForTheLargest) {
  for (const double special : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    auto test = abs_max_case({.rows = 3, .columns = 7});
    test.inputs.tensors["x"][5] = -special;
    const double found = execute_on_cpu(test).outputs.at("abs_max")[0];
    EXPECT_TRUE(std::isnan(special) ? std::isnan(found) : found == special) << special;
  }
}

TEST(Fp8, ClearWritesZeros) {
  OpCase<op::Clear<Tensor>> test{
      .name = "clear", .op = {.x = shape_only(DType::kF32, {37}), .state = {}}, .inputs = {}};
  EXPECT_EQ(execute_on_cpu(test).outputs.at("x"), std::vector<double>(37, 0.0));
}

TEST(Fp8, ASkippedStepClearsNothing) {
  OpCase<op::Clear<Tensor>> test{.name = "clear",
                                 .op = {.x = shape_only(DType::kF32, {3}), .state = state_shape()},
                                 .inputs = {.tensors = {{"x", {1, 2, 3}}}, .state = {.skipped = 1}}};
  EXPECT_EQ(execute_on_cpu(test).outputs.at("x"), (std::vector<double>{1, 2, 3}));
  test.inputs.state.skipped = 0;
  EXPECT_EQ(execute_on_cpu(test).outputs.at("x"), (std::vector<double>{0, 0, 0}));
}

TEST(Fp8, BothCopiesHoldTheNearestCodes) {
  for (const Fp8Case& c : fp8_cases()) {
    const auto test = quantize_case(c);
    expect_quantized(c, test, execute_on_cpu(test));
  }
}

TEST(Fp8, ATensorWithInfOrNanIsCountedAndItsProductsAreNan) {
  for (const double special : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    auto test = quantize_case({.rows = 3, .columns = 7});
    test.inputs.tensors["x"][5] = special;
    test.inputs.tensors["abs_max"] = {special};
    const Execution execution = execute_on_cpu(test);
    EXPECT_EQ(execution.outputs.state.fp8_overflows, 1);
    EXPECT_TRUE(std::isnan(execution.outputs.at("scale")[0]));
  }
}

TEST(Fp8, NothingIsCountedWithoutAState) {
  auto test = quantize_case({.rows = 3, .columns = 7});
  test.op.state = {};
  EXPECT_EQ(execute_on_cpu(test).bytes.count("state"), 0u);
}

TEST(Fp8, ProductsKeepTheErrorRule) {
  for (const ScaledCase& c : scaled_cases()) {
    const auto test = scaled_case(c, false);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(Fp8, ProductsOfWholeNumbersAreExact) {
  for (const ScaledCase& c : scaled_cases()) {
    const auto test = scaled_case(c, true);
    expect_exact(test.name, execute_on_cpu(test), reference::evaluate<double>(test.op, test.inputs));
  }
}

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

TEST(Fp8, WhateverWritesATensorLeavesItsMagnitude) {
  const auto expect_magnitude = [](auto test, const char* output) {
    test.op.abs_max = shape_only(DType::kF32, {1});
    test.inputs.tensors["abs_max"] = {0};
    const Execution execution = execute_on_cpu(test);
    EXPECT_EQ(execution.outputs.at("abs_max")[0], largest_magnitude(execution.outputs.at(output))) << test.name;
  };
  for (const SwiGluCase& c : kSwiGluCases) {
    expect_magnitude(swiglu_forward_case(c), "h");
    expect_magnitude(swiglu_backward_case(c), "dgate_up");
  }
  for (const auto& test : rope_cases()) expect_magnitude(test, "qkv");
  const AttentionCase attention{
      .heads = 6, .kv_heads = 2, .dim = 16, .lengths = {97}, .tail_rows = 3, .off_heads = {1}};
  expect_magnitude(attention.forward(1), "out");
  for (const AdamWForm& form : adamw_forms()) {
    for (const bool has_weight : {false, true}) {
      if (!has_weight && form.weights != op::WeightForm::kMaster) continue;
      auto test = in_form(plain_case_for(form, 1003), form);
      if (!has_weight) test.op.weight = {};
      expect_magnitude(test, has_weight ? "weight" : "master");
    }
  }
  for (const NormCase& c : kNormCases) {
    expect_magnitude(norm_forward_case(c), "y");
    expect_magnitude(norm_backward_case(c, true), c.residual == c.compute ? "dresidual" : "dresidual_cast");
  }
}

}  // namespace
}  // namespace litespark::test
