// SPDX-License-Identifier: Apache-2.0
// The three products of a linear layer on the GPU: the error rule in fp32 (no TF32) and bf16, odd sizes, bias,
// accumulation; and choices that survive a round trip through text.
#include <functional>

#include "core/error.h"
#include "ops/cuda/linear_cases.h"

namespace litespark::test {
namespace {

/// sum over k of left(k) * right(k), in Real, plus `start`.
template <class Real>
double plain_sum(int64_t count, double start, const std::function<double(int64_t)>& left,
                 const std::function<double(int64_t)>& right) {
  Real sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += static_cast<Real>(left(k)) * static_cast<Real>(right(k));
  return static_cast<double>(sum + static_cast<Real>(start));
}

struct Operand {
  const std::vector<double>& values;
  int64_t columns;
  double at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * columns + column)]; }
};

template <class Real>
Values forward(const GpuLinearCase& c, const Values& in) {
  const Operand x{in.at("x"), c.inputs}, weight{in.at("weight"), c.inputs};
  std::vector<double> y;
  for (int64_t n = 0; n < c.rows; ++n) {
    for (int64_t o = 0; o < c.outputs; ++o) {
      const double bias = c.bias ? in.at("bias")[static_cast<size_t>(o)] : 0.0;
      y.push_back(plain_sum<Real>(
          c.inputs, bias, [&](int64_t i) { return x.at(n, i); }, [&](int64_t i) { return weight.at(o, i); }));
    }
  }
  return {.tensors = {{"y", y}}, .state = {}};
}

template <class Real>
Values backward_input(const GpuLinearCase& c, const Values& in) {
  const Operand dy{in.at("dy"), c.outputs}, weight{in.at("weight"), c.inputs};
  std::vector<double> dx;
  for (int64_t n = 0; n < c.rows; ++n) {
    for (int64_t i = 0; i < c.inputs; ++i) {
      const double start = c.accumulate ? in.at("dx")[static_cast<size_t>(n * c.inputs + i)] : 0.0;
      dx.push_back(plain_sum<Real>(
          c.outputs, start, [&](int64_t o) { return dy.at(n, o); }, [&](int64_t o) { return weight.at(o, i); }));
    }
  }
  return {.tensors = {{"dx", dx}}, .state = {}};
}

template <class Real>
Values backward_weight(const GpuLinearCase& c, const Values& in) {
  const Operand dy{in.at("dy"), c.outputs}, x{in.at("x"), c.inputs};
  std::vector<double> dweight;
  for (int64_t o = 0; o < c.outputs; ++o) {
    for (int64_t i = 0; i < c.inputs; ++i) {
      const double start = c.accumulate ? in.at("dweight")[static_cast<size_t>(o * c.inputs + i)] : 0.0;
      dweight.push_back(plain_sum<Real>(
          c.rows, start, [&](int64_t n) { return dy.at(n, o); }, [&](int64_t n) { return x.at(n, i); }));
    }
  }
  return {.tensors = {{"dweight", dweight}}, .state = {}};
}

TEST(Matmul, ForwardKeepsTheErrorRule) {  // fault:C7
  for (const GpuLinearCase& c : gpu_linear_cases()) {
    const auto test = matmul_forward_case(c);
    // The bf16 epilogue takes the bias in bf16.
    GpuLinearCase plain = c;
    Values rounded = test.inputs;
    if (c.bias) {
      for (double& value : rounded.tensors["bias"]) value = round_to(c.dtype, value);
    }
    expect_kernel_rule(test.name, execute_on_cuda(test), forward<double>(c, test.inputs),
                       forward<float>(plain, rounded));
  }
}

TEST(Matmul, BackwardInputKeepsTheErrorRule) {  // fault:C8
  for (const GpuLinearCase& c : gpu_linear_cases()) {
    const auto test = matmul_input_case(c);
    expect_kernel_rule(test.name, execute_on_cuda(test), backward_input<double>(c, test.inputs),
                       backward_input<float>(c, test.inputs));
  }
}

TEST(Matmul, BackwardWeightKeepsTheErrorRule) {
  for (const GpuLinearCase& c : gpu_linear_cases()) {
    const auto test = matmul_weight_case(c);
    expect_kernel_rule(test.name, execute_on_cuda(test), backward_weight<double>(c, test.inputs),
                       backward_weight<float>(c, test.inputs));
  }
}

// precision.gradient = "bf16": summed in fp32, rounded once.
TEST(Matmul, ABf16WeightGradientKeepsTheErrorRule) {
  for (const GpuLinearCase& c : gpu_linear_cases()) {
    if (c.dtype != DType::kBF16 || c.accumulate) continue;
    auto test = matmul_weight_case(c);
    test.op.dweight = shape_only(DType::kBF16, test.op.dweight.shape);
    expect_kernel_rule(test.name, execute_on_cuda(test), backward_weight<double>(c, test.inputs),
                       backward_weight<float>(c, test.inputs));
  }
}

TEST(Matmul, RunsWithoutScratchAndWithoutPreparation) {
  const GpuLinearCase c{.rows = 64, .inputs = 128, .outputs = 96};
  const auto backend = make_cuda_backend({});
  auto test = matmul_weight_case(c);
  test.op.scratch = {};
  CaseMemory memory(*backend, test.inputs, test.aliases);
  const auto bound = test.op.map(memory);
  backend->run(bound);
  backend->synchronize();
  expect_kernel_rule(test.name, memory.collect(test.name), backward_weight<double>(c, test.inputs),
                     backward_weight<float>(c, test.inputs));
  EXPECT_TRUE(backend->tuning().empty()) << "nothing was timed";
}

TEST(Matmul, ABiasInBf16NeedsItsScratch) {
  auto test = matmul_forward_case({.rows = 2, .inputs = 8, .outputs = 8, .bias = true});
  test.op.scratch = {};
  CaseMemory memory(cuda_backend(), test.inputs, test.aliases);
  const auto bound = test.op.map(memory);
  EXPECT_THROW(cuda_backend().run(bound), InternalError);
}

}  // namespace
}  // namespace litespark::test
