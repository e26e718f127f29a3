// SPDX-License-Identifier: Apache-2.0
// The conformance harness itself: every kind of mistake that it exists for, planted, is reported.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/cpu_conformance.h"
#include "support/conformance.h"
#include "support/finite_differences.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

const std::vector<double> kTruth = {1, -2, 3, -4};

std::vector<double> shifted(double by) {
  std::vector<double> values = kTruth;
  for (size_t i = 0; i < values.size(); ++i) values[i] += i % 2 == 0 ? by : -by;
  return values;
}

/// `count` copies of the same four errors, so that no slack for small samples applies.
ErrorStats large_sample(const std::vector<double>& errors) {
  std::vector<double> actual;
  std::vector<double> expected;
  for (int i = 0; i < 1024; ++i) {
    for (size_t k = 0; k < errors.size(); ++k) {
      expected.push_back(kTruth[k]);
      actual.push_back(kTruth[k] + errors[k]);
    }
  }
  return compare(actual, expected);
}

TEST(Conformance, CompareMeasuresErrors) {
  const ErrorStats stats = compare(shifted(0.5), kTruth);
  EXPECT_EQ(stats.count, 4);
  EXPECT_DOUBLE_EQ(stats.max_abs, 0.5);
  EXPECT_DOUBLE_EQ(stats.max_rel, 0.5);
  EXPECT_DOUBLE_EQ(stats.rms, 0.5);
  EXPECT_DOUBLE_EQ(stats.mean_signed, 0.0);
  EXPECT_EQ(
      compare(std::vector<double>{NAN, INFINITY, 1}, std::vector<double>{NAN, -INFINITY, INFINITY}).kind_mismatches, 2);
  EXPECT_THROW(compare(shifted(0), std::vector<double>{1}), InternalError);
}

TEST(Conformance, RuleFindsLargeScatteredAndBiasedErrors) {  // fault:C8
  const ErrorStats plain = large_sample({1e-6, -1e-6, 1e-6, -1e-6});
  const auto verdict = [&](const std::vector<double>& errors) {
    return kernel_rule_violation(large_sample(errors), plain, DType::kF32);
  };
  EXPECT_EQ(verdict({1e-6, -1e-6, -1e-6, 1e-6}), "");
  EXPECT_NE(verdict({2.1e-6, -2.1e-6, 0, 0}).find("maximum"), std::string::npos);
  EXPECT_NE(verdict({1.6e-6, -1.6e-6, 1.6e-6, -1.6e-6}).find("RMS"), std::string::npos);
  EXPECT_NE(verdict({5e-7, 5e-7, 5e-7, 5e-7}).find("biased"), std::string::npos);
  EXPECT_NE(verdict({1e-6, -1e-6, NAN, 0}).find("NaN"), std::string::npos);
}

// Rows of a softmax: the rounding of a row's sum is in all its elements. What one factor's roundings explain is no
// bias, twice that is.
TEST(Conformance, RuleTellsARoundedFactorFromABias) {
  const auto verdict = [&](double relative_error) {
    std::vector<double> expected, actual, plain;
    for (int i = 0; i < 32000; ++i) {
      expected.push_back(1.0 / 32000);
      actual.push_back(expected.back() * (1 + relative_error));
      plain.push_back(expected.back() * (1 + (i % 2 == 0 ? 4e-7 : -4e-7)));
    }
    return kernel_rule_violation(compare(actual, expected), compare(plain, expected), DType::kF32);
  };
  EXPECT_EQ(verdict(0.9 * kSharedRoundings), "");
  EXPECT_EQ(verdict(-0.9 * kSharedRoundings), "");
  EXPECT_NE(verdict(2 * kSharedRoundings).find("biased"), std::string::npos) << verdict(2 * kSharedRoundings);
  EXPECT_NE(verdict(-2 * kSharedRoundings).find("biased"), std::string::npos);
}

/// A conversion whose memory the test may spoil before it is collected.
struct PlantedRun {
  OpCase<op::Convert<Tensor>> test{.name = "planted",
                                   .op = {.out = shape_only(DType::kF32, {5}), .x = shape_only(DType::kF32, {5})},
                                   .inputs = {.tensors = {{"x", {1, 2, 3, 4, 5}}}, .state = {}}};
  CaseMemory memory{cpu_backend(CpuIsa::kGeneric, 1), test.inputs, test.aliases};
  op::Convert<Tensor> bound = test.op.map(memory);
};

TEST(Conformance, CanariesReportAWriteBeyondTheEnds) {
  PlantedRun behind;
  behind.bound.out.as<float>()[5] = 0;
  EXPECT_NONFATAL_FAILURE(behind.memory.collect("planted"), "behind out");
  PlantedRun before;
  before.bound.out.as<float>()[-1] = 0;
  EXPECT_NONFATAL_FAILURE(before.memory.collect("planted"), "before out");
}

TEST(Conformance, ChangedInputsAreReported) {
  PlantedRun planted;
  planted.bound.x.as<float>()[2] = 9;
  EXPECT_NONFATAL_FAILURE(planted.memory.collect("planted"), "input x was changed");
}

TEST(Conformance, UnwrittenOutputsAreNan) {
  PlantedRun planted;
  const Execution execution = planted.memory.collect("planted");
  for (const double value : execution.outputs.at("out")) EXPECT_TRUE(std::isnan(value));
}

TEST(Conformance, DifferingBitsAndValuesAreReported) {
  Execution one;
  one.outputs.tensors["y"] = {1, 2};
  one.dtypes["y"] = DType::kF32;
  one.bytes["y"] = encode(DType::kF32, one.outputs.at("y"));
  Execution other = one;
  expect_same_bits("same", one, other);
  other.outputs.tensors["y"] = {1, 2.001};
  other.bytes["y"] = encode(DType::kF32, other.outputs.at("y"));
  EXPECT_NONFATAL_FAILURE(expect_same_bits("bits", one, other), "differs from byte 4");
  EXPECT_NONFATAL_FAILURE(expect_close("values", one, other), "values: y");
}

TEST(Conformance, WrongGradientsAreReported) {  // fault:C10
  const auto square = [](const std::vector<double>& x) { return x[0] * x[0]; };
  expect_gradient("right", {3}, {6}, square);
  EXPECT_NONFATAL_FAILURE(expect_gradient("wrong", {3}, {6.001}, square), "wrong, element 0");
}

TEST(Conformance, ValuesAreRoundedOnce) {
  EXPECT_EQ(round_to(DType::kBF16, 1 + 0x1p-8), 1.0);
  // Just above a tie of bf16 by less than a float can show: rounding by way of float would go down.
  EXPECT_EQ(round_to(DType::kBF16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(round_to(DType::kBF16, -(1 + 0x1p-8 + 0x1p-40)), -(1 + 0x1p-7));
  EXPECT_EQ(round_to(DType::kI32, -2.0), -2.0);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32, DType::kI64, DType::kU8}) {
    EXPECT_EQ(decode(dtype, encode(dtype, std::vector<double>{0, 1, 2, 100})), (std::vector<double>{0, 1, 2, 100}));
  }
}

}  // namespace
}  // namespace litespark::test
