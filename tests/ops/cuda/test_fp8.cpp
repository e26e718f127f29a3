// SPDX-License-Identifier: Apache-2.0
// 8-bit floats on the GPU: the same magnitudes, codes and counts as by search, products of cuBLASLt held to fp64, the
// magnitudes that other kernels leave.
#include <cmath>
#include <cstdio>
#include <span>

#include "ops/adamw_forms.h"
#include "ops/cuda/attention_cases.h"
#include "ops/cuda/cuda_conformance.h"
#include "ops/fp8_cases.h"
#include "ops/rms_norm_cases.h"
#include "ops/rope_cases.h"
#include "ops/swiglu_cases.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

constexpr int64_t kScratchBytes = (1 << 20) + 4096;

TEST(Fp8, AbsMaxFindsTheLargestMagnitudes) {
  for (const Fp8Case& c : fp8_cases()) {
    const auto test = abs_max_case(c);
    const Execution execution = execute_on_cuda(test);
    const Magnitudes expected = magnitudes_of(c, test.inputs.at("x"));
    EXPECT_EQ(execution.outputs.at("abs_max"), expected.rows) << test.name;
    if (c.by_row) {
      EXPECT_EQ(execution.outputs.at("column_abs_max"), expected.columns) << test.name;
    }
  }
}

TEST(Fp8, AbsMaxOnlyEverRisesAndTakesInfAndNanForTheLargest) {
  auto test = abs_max_case({.rows = 3, .columns = 7});
  test.inputs.tensors["abs_max"] = {1e6};
  EXPECT_EQ(execute_on_cuda(test).outputs.at("abs_max")[0], 1e6);
  test.inputs.tensors["x"][5] = -static_cast<double>(INFINITY);
  EXPECT_EQ(execute_on_cuda(test).outputs.at("abs_max")[0], static_cast<double>(INFINITY));
  test.inputs.tensors["x"][6] = static_cast<double>(NAN);
  EXPECT_TRUE(std::isnan(execute_on_cuda(test).outputs.at("abs_max")[0]));
}

TEST(Fp8, ClearWritesZeros) {
  OpCase<op::Clear<Tensor>> test{
      .name = "clear", .op = {.x = shape_only(DType::kF32, {37}), .state = {}}, .inputs = {}};
  EXPECT_EQ(execute_on_cuda(test).outputs.at("x"), std::vector<double>(37, 0.0));
}

TEST(Fp8, BothCopiesHoldTheNearestCodes) {
  for (const Fp8Case& c : fp8_cases()) {
    const auto test = quantize_case(c);
    expect_quantized(c, test, execute_on_cuda(test));
  }
}

TEST(Fp8, ATensorWithInfOrNanIsCountedAndItsProductsAreNan) {
  for (const double special : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    auto test = quantize_case({.rows = 160, .columns = 144});
    test.inputs.tensors["x"][5] = special;
    test.inputs.tensors["abs_max"] = {special};
    const Execution execution = execute_on_cuda(test);
    EXPECT_EQ(execution.outputs.state.fp8_overflows, 1);
    EXPECT_TRUE(std::isnan(execution.outputs.at("scale")[0]));
  }
}

void expect_exact_products(bool by_row) {
  for (const bool is_fast : {false, true}) {
    for (const ScaledCase& c : scaled_cases()) {
      if (c.by_row != by_row) continue;
      auto test = scaled_case(c, true, kScratchBytes);
      test.op.is_fast = is_fast;
      expect_exact(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs));
    }
  }
}

TEST(Fp8, ProductsOfWholeNumbersAreExact) {
  expect_exact_products(false);
}

TEST(Fp8, ProductsOfWholeNumbersWithAScaleARowAreExact) {
  expect_exact_products(true);
}

// The tensor cores add 8-bit products in fewer bits than f32; with a promotion to f32 now and then the sum is still
// good to what a bf16 result holds. The bias of the epilogue is rounded to bf16.
void expect_products_keep_the_rule(bool by_row) {
  for (const ScaledCase& c : scaled_cases()) {
    if (c.out != DType::kBF16 || c.by_row != by_row) continue;
    const auto test = scaled_case(c, false, kScratchBytes);
    Values rounded = test.inputs;
    if (c.bias) {
      for (double& value : rounded.tensors["bias"]) value = round_to(DType::kBF16, value);
    }
    expect_kernel_rule(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs),
                       reference::evaluate<float>(test.op, rounded));
  }
}

TEST(Fp8, ProductsInBf16KeepTheErrorRule) {
  expect_products_keep_the_rule(false);
}

TEST(Fp8, ProductsInBf16WithAScaleARowKeepTheErrorRule) {
  expect_products_keep_the_rule(true);
}

/// Root of the mean squared error of a product, in units of the product's own root mean square.
double relative_error(const ScaledCase& c, bool is_fast) {
  auto test = scaled_case(c, false, kScratchBytes);
  test.op.is_fast = is_fast;
  const std::vector<double> truth = reference::evaluate<double>(test.op, test.inputs).at("out");
  const std::vector<double> found = execute_on_cuda(test).outputs.at("out");
  double error = 0, size = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    error += (found[i] - truth[i]) * (found[i] - truth[i]);
    size += truth[i] * truth[i];
  }
  return std::sqrt(error / size);
}

// What an f32 result shows of the accumulators. A result in bf16 is off by 2^-9.6 of itself in the mean; a sum over
// 4,096 tokens must stay well below that with promotion, and is allowed to come near it without.
TEST(Fp8, SumsInF32StayBelowTheRoundingOfBf16) {
  const ScaledCase c{.rows = 96, .columns = 64, .depth = 4096, .out = DType::kF32};
  const double promoted = relative_error(c, false);
  const double fast = relative_error(c, true);
  RecordProperty("promoted", std::to_string(promoted));
  RecordProperty("fast", std::to_string(fast));
  std::printf("relative error of a sum over 4096: %.2e promoted, %.2e fast\n", promoted, fast);
  EXPECT_LT(promoted, std::ldexp(1.0, -11));
  EXPECT_LT(fast, std::ldexp(1.0, -9));
}

TEST(Fp8, ChoicesOfProductsAreNamedInTheTuningTable) {
  const auto backend = make_cuda_backend({});
  const auto test = scaled_case({.rows = 64, .columns = 64, .depth = 64, .a = DType::kE5M2}, true, kScratchBytes);
  execute_on_cuda(test, *backend);
  ASSERT_EQ(backend->tuning().size(), 1u);
  EXPECT_TRUE(backend->tuning().begin()->first.starts_with("matmul_scaled n=64 i=64 o=64 e5m2 x e4m3 -> bf16"))
      << backend->tuning().begin()->first;
}

double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

template <class Op>
void expect_magnitude(OpCase<Op> test, const char* output) {
  const Execution plain = execute_on_cuda(test);
  test.op.abs_max = shape_only(DType::kF32, {1});
  test.inputs.tensors["abs_max"] = {0};
  const Execution execution = execute_on_cuda(test);
  EXPECT_EQ(execution.outputs.at("abs_max")[0], largest_magnitude(execution.outputs.at(output))) << test.name;
  EXPECT_EQ(execution.bytes.at(output), plain.bytes.at(output)) << test.name << ": measuring changed the result";
}

TEST(Fp8, SwiGluLeavesTheMagnitudeOfWhatItWrites) {
  for (const std::span<const SwiGluCase> cases : {std::span<const SwiGluCase>(kSwiGluCases), {kWideSwiGluCases}}) {
    for (const SwiGluCase& c : cases) {
      expect_magnitude(swiglu_forward_case(c), "h");
      expect_magnitude(swiglu_backward_case(c), "dgate_up");
    }
  }
}

TEST(Fp8, NormsLeaveTheMagnitudeOfWhatTheyWrite) {
  std::vector<NormCase> cases(std::begin(kNormCases), std::end(kNormCases));
  for (const DTypePair dtypes : kDTypePairs) {
    for (const int64_t columns : {8, 1024, 3072, 3073, 8192, 16384}) {
      cases.push_back({.rows = 131, .columns = columns, .residual = dtypes.residual, .compute = dtypes.compute});
    }
  }
  for (const NormCase& c : cases) {
    expect_magnitude(norm_forward_case(c), "y");
    for (const bool first : {false, true}) {
      expect_magnitude(norm_backward_case(c, first), c.residual == c.compute ? "dresidual" : "dresidual_cast");
    }
  }
}

TEST(Fp8, AdamWLeavesTheMagnitudeOfTheWeightsThatItWrites) {
  for (const AdamWForm& form : adamw_forms()) {
    for (const int64_t size : {1, 5, 1003, 50001})
      expect_magnitude(in_form(plain_case_for(form, size), form), "weight");
  }
  auto test = plain_case_for({}, 1003);
  test.op.weight = {};
  expect_magnitude(test, "master");
}

TEST(Fp8, ASkippedStepClearsNothing) {
  OpCase<op::Clear<Tensor>> test{.name = "clear",
                                 .op = {.x = shape_only(DType::kF32, {3}), .state = state_shape()},
                                 .inputs = {.tensors = {{"x", {1, 2, 3}}}, .state = {.skipped = 1}}};
  EXPECT_EQ(execute_on_cuda(test).outputs.at("x"), (std::vector<double>{1, 2, 3}));
  test.inputs.state.skipped = 0;
  EXPECT_EQ(execute_on_cuda(test).outputs.at("x"), (std::vector<double>{0, 0, 0}));
}

TEST(Fp8, TheRotationLeavesTheMagnitudeOfAllHeads) {
  for (const auto& test : rope_cases()) expect_magnitude(test, "qkv");
}

/// Of whichever kernel the backend chose, which the pass of its own must agree
/// with.
void expect_attention_magnitude(Backend& backend, const GpuAttentionCase& c) {
  auto test = attention_forward_case(backend, c, 1);
  const Execution plain = execute(backend, test);
  test.op.abs_max = shape_only(DType::kF32, {1});
  test.inputs.tensors["abs_max"] = {0};
  const Execution execution = execute(backend, test);
  EXPECT_EQ(execution.outputs.at("abs_max")[0], largest_magnitude(execution.outputs.at("out"))) << test.name;
  EXPECT_EQ(execution.bytes.at("out"), plain.bytes.at("out")) << test.name << ": measuring changed the result";
}

TEST(Fp8, EveryAttentionLeavesTheMagnitudeOfWhatItWrites) {
  const auto hopper = make_cuda_backend({.attention = AttentionKind::kHopper});
  const auto any = make_cuda_backend({});
  for (const int dim : {64, 128}) {
    for (Backend* const backend : {&portable_backend(), hopper.get(), any.get()}) {
      expect_attention_magnitude(*backend, {.heads = 6, .kv_heads = 2, .dim = dim, .lengths = {1, 127, 300}});
      expect_attention_magnitude(*backend, {.heads = 2, .kv_heads = 2, .dim = dim, .lengths = {257, 257}});
      expect_attention_magnitude(*backend, {.heads = 4, .kv_heads = 2, .dim = dim, .lengths = {90}, .off_heads = {2}});
      expect_attention_magnitude(*backend, {.dim = dim, .lengths = {200}, .tail_rows = 70, .magnitude = 8});
    }
  }
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_attention_magnitude(
        portable_backend(), {.heads = 3, .kv_heads = 1, .dim = 40, .lengths = {97, 1}, .tail_rows = 2, .dtype = dtype});
  }
}

TEST(Fp8, ANanIsTheLargestMagnitudeThatAKernelLeaves) {
  auto test = swiglu_forward_case({33, 688, DType::kBF16, 2});
  test.op.abs_max = shape_only(DType::kF32, {1});
  test.inputs.tensors["abs_max"] = {0};
  test.inputs.tensors["gate_up"][700] = static_cast<double>(NAN);
  EXPECT_TRUE(std::isnan(execute_on_cuda(test).outputs.at("abs_max")[0]));
}

}  // namespace
}  // namespace litespark::test
