// SPDX-License-Identifier: Apache-2.0
// dW = dY^T X by our own panels and, on generic, by the library: the kernel error rule, equal bits for any thread
// count, scratch sizes.
#include <array>

#include "ops/matmul_cases.h"

namespace litespark::test {
namespace {

std::vector<LinearCase> weight_gradient_cases() {
  std::vector<LinearCase> cases;
  for (const LinearCase& c : linear_cases()) {
    if (!c.packed) cases.push_back(c);
  }
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    // Three panels of tokens, the last one short; slices of both widths.
    cases.push_back({.rows = 4100, .inputs = 9, .outputs = 70, .dtype = dtype, .accumulate = true});
    cases.push_back({.rows = 2049, .inputs = 3, .outputs = 1025, .dtype = dtype});
  }
  return cases;
}

TEST(MatmulWeightGradient, KeepsTheErrorRule) {
  for (const LinearCase& c : weight_gradient_cases()) {
    const auto test = backward_weight_case(c, 1);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    const Values plain = reference::evaluate<float>(test.op, test.inputs);
    for (const CpuIsa isa : usable_isas()) expect_kernel_rule(test.name, execute_with_threads(isa, test), truth, plain);
  }
}

// Our own panels add the same products in the same order, however wide a register is.
TEST(MatmulWeightGradient, F32HasTheSameBitsOnEveryInstructionSet) {
  for (const LinearCase& c : weight_gradient_cases()) {
    if (c.dtype == DType::kF32) execute_on_cpu(backward_weight_case(c, 4));
  }
}

TEST(MatmulWeightGradient, ScratchOfTheSizeAskedForIsEnough) {
  for (const LinearCase& c : weight_gradient_cases()) {
    const auto without_scratch = backward_weight_case(c, 2);
    for (const CpuIsa isa : usable_isas()) {
      Backend& backend = cpu_backend(isa, 2);
      auto test = without_scratch;
      const Execution without = execute(backend, test);
      const int64_t bytes = backend.sizes().matmul_backward_weight_scratch_bytes(c.shape());
      test.op.scratch = shape_only(DType::kU8, {bytes});
      EXPECT_EQ(execute(backend, test).bytes.at("dweight"), without.bytes.at("dweight")) << c.name();
      test.op.scratch = shape_only(DType::kU8, {bytes - 1});
      EXPECT_THROW(execute(backend, test), InternalError);
    }
  }
}

// precision.gradient = "bf16": the f32 sum over all panels, rounded once at the end.
TEST(MatmulWeightGradient, ABf16GradientIsTheRoundedF32One) {
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512Bf16, CpuIsa::kAmx}) {
    Backend& backend = cpu_backend(isa, 2);
    for (const LinearCase& c : weight_gradient_cases()) {
      if (c.dtype != DType::kBF16 || c.accumulate) continue;
      auto test = backward_weight_case(c, 4);
      const std::vector<double> sums = execute(backend, test).outputs.at("dweight");
      test.op.dweight = shape_only(DType::kBF16, test.op.dweight.shape);
      LinearShape shape = c.shape();
      shape.gradient = DType::kBF16;
      const int64_t bytes = backend.sizes().matmul_backward_weight_scratch_bytes(shape);
      test.op.scratch = shape_only(DType::kU8, {bytes});
      EXPECT_EQ(execute(backend, test).bytes.at("dweight"), encode(DType::kBF16, sums)) << c.name();
      test.op.scratch = shape_only(DType::kU8, {bytes - 1});
      EXPECT_THROW(execute(backend, test), InternalError);
    }
  }
}

// fault:C11: a batch without tokens gives no gradient, not an old one.
TEST(MatmulWeightGradient, NoTokensGiveZeroOrLeaveTheSum) {
  for (const bool accumulate : {false, true}) {
    const auto test = backward_weight_case({.rows = 0, .inputs = 3, .outputs = 2, .accumulate = accumulate}, 3);
    const std::vector<double> gradient = execute_with_threads(CpuIsa::kAvx512Bf16, test).outputs.at("dweight");
    EXPECT_EQ(gradient, accumulate ? test.inputs.at("dweight") : std::vector<double>(6, 0.0));
  }
}

}  // namespace
}  // namespace litespark::test
