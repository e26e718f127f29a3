// SPDX-License-Identifier: Apache-2.0
// The products of rows with a weight: the kernel error rule, equal bits for any thread count, and scratch sizes.
#include <array>

#include "ops/matmul_cases.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

template <class Op>
void expect_rule(const OpCase<Op>& test) {
  expect_kernel_rule(test.name, execute_with_threads(CpuIsa::kAvx512Bf16, test),
                     reference::evaluate<double>(test.op, test.inputs),
                     reference::evaluate<float>(test.op, test.inputs));
}

TEST(Matmul, ForwardKeepsTheErrorRule) {  // fault:C7
  for (const LinearCase& c : linear_cases()) expect_rule(forward_case(cpu_backend(CpuIsa::kAvx512Bf16, 1), c, 1));
}

TEST(Matmul, BackwardInputKeepsTheErrorRule) {  // fault:C8
  for (const LinearCase& c : linear_cases()) {
    expect_rule(backward_input_case(cpu_backend(CpuIsa::kAvx512Bf16, 1), c, 2));
  }
}

// Without bf16 instructions blocks are converted to f32; the products of the rounded inputs are the same.
TEST(Matmul, ConvertedBf16KeepsTheErrorRule) {
  Backend& backend = cpu_backend(CpuIsa::kAvx2, 2);
  for (LinearCase c : linear_cases()) {
    c.dtype = DType::kBF16;
    const auto test = forward_case(backend, c, 3);
    expect_kernel_rule(test.name, execute(backend, test), reference::evaluate<double>(test.op, test.inputs),
                       reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(Matmul, ScratchOfTheSizeAskedForIsEnough) {
  for (const CpuIsa isa : {CpuIsa::kAvx2, CpuIsa::kAvx512Bf16}) {
    Backend& backend = cpu_backend(isa, 2);
    for (const LinearCase& c : linear_cases()) {
      auto forward = forward_case(backend, c, 4);
      const Execution without = execute(backend, forward);
      const int64_t bytes = backend.sizes().matmul_forward_scratch_bytes(c.shape());
      forward.op.scratch = shape_only(DType::kU8, {std::max<int64_t>(bytes, 1)});
      EXPECT_EQ(execute(backend, forward).bytes.at("y"), without.bytes.at("y")) << c.name();
      auto backward = backward_input_case(backend, c, 5);
      const Execution gradient = execute(backend, backward);
      backward.op.scratch = shape_only(
          DType::kU8, {std::max<int64_t>(backend.sizes().matmul_backward_input_scratch_bytes(c.shape()), 1)});
      EXPECT_EQ(execute(backend, backward).bytes.at("dx"), gradient.bytes.at("dx")) << c.name();
    }
  }
}

TEST(Matmul, TooLittleScratchIsRefused) {
  Backend& backend = cpu_backend(CpuIsa::kAvx2, 2);
  const LinearCase c{.rows = 300, .inputs = 40, .outputs = 50, .dtype = DType::kBF16};
  auto test = forward_case(backend, c, 6);
  test.op.scratch = shape_only(DType::kU8, {64});
  EXPECT_THROW(execute(backend, test), InternalError);
}

TEST(Matmul, NoRowsAreNoWork) {
  for (const bool packed : {false, true}) {
    const LinearCase c{.rows = 0, .inputs = 8, .outputs = 4, .packed = packed};
    Backend& backend = cpu_backend(CpuIsa::kAvx512Bf16, 2);
    execute(backend, forward_case(backend, c, 7));
    execute(backend, backward_input_case(backend, c, 7));
    EXPECT_EQ(backend.sizes().matmul_forward_scratch_bytes(c.shape()), 0);
  }
}

TEST(Matmul, ReferenceGradientsAreDerivativesOfTheForward) {  // fault:C10
  const LinearCase c{.rows = 3, .inputs = 4, .outputs = 5, .dtype = DType::kF64};
  Backend& backend = cpu_backend(CpuIsa::kGeneric, 1);
  const auto forward = forward_case(backend, c, 8);
  auto input = backward_input_case(backend, c, 9);
  auto weight = backward_weight_case(c, 10);
  input.inputs.tensors["weight"] = forward.inputs.at("weight");
  weight.inputs.tensors["x"] = forward.inputs.at("x");
  weight.inputs.tensors["dy"] = input.inputs.at("dy");
  const auto loss_of = [&](const std::string& name) {
    return [&, name](const std::vector<double>& value) {
      Values inputs = forward.inputs;
      inputs.tensors[name] = value;
      return dot(reference::evaluate<double>(forward.op, inputs).at("y"), input.inputs.at("dy"));
    };
  };
  expect_gradient("dx", forward.inputs.at("x"), reference::evaluate<double>(input.op, input.inputs).at("dx"),
                  loss_of("x"));
  expect_gradient("dweight", forward.inputs.at("weight"),
                  reference::evaluate<double>(weight.op, weight.inputs).at("dweight"), loss_of("weight"));
}

}  // namespace
}  // namespace litespark::test
