// SPDX-License-Identifier: Apache-2.0
#include "reference/matmul.h"

#include "reference/real.h"

namespace litespark::reference {
namespace {

template <class Real>
std::vector<Real> weight_as(DType compute, const test::Values& in) {
  std::vector<double> weight = in.at("weight");
  for (double& value : weight) value = test::round_to(compute, value);
  return as_real<Real>(weight);
}

}  // namespace

template <class Real>
test::Values evaluate(const op::MatmulForward<Tensor>& op, const test::Values& in) {
  const size_t inputs = static_cast<size_t>(op.in_features);
  const size_t outputs = static_cast<size_t>(op.out_features);
  const std::vector<Real> x = as_real<Real>(in.at("x"));
  const std::vector<Real> weight = weight_as<Real>(op.x.dtype, in);
  const size_t rows = x.size() / inputs;
  std::vector<Real> y(rows * outputs);
  for (size_t n = 0; n < rows; ++n) {
    for (size_t o = 0; o < outputs; ++o) {
      Real sum = 0;
      for (size_t i = 0; i < inputs; ++i) sum += x[n * inputs + i] * weight[o * inputs + i];
      if (op.bias.has_value()) sum += static_cast<Real>(in.at("bias")[o]);
      y[n * outputs + o] = sum;
    }
  }
  return {.tensors = {{"y", as_double(y)}}, .state = in.state};
}

template <class Real>
test::Values evaluate(const op::MatmulBackwardInput<Tensor>& op, const test::Values& in) {
  const size_t inputs = static_cast<size_t>(op.in_features);
  const size_t outputs = static_cast<size_t>(op.out_features);
  const std::vector<Real> dy = as_real<Real>(in.at("dy"));
  const std::vector<Real> weight = weight_as<Real>(op.dy.dtype, in);
  const size_t rows = dy.size() / outputs;
  std::vector<Real> dx(rows * inputs);
  if (op.accumulate) dx = as_real<Real>(in.at("dx"));
  for (size_t n = 0; n < rows; ++n) {
    for (size_t i = 0; i < inputs; ++i) {
      Real sum = 0;
      for (size_t o = 0; o < outputs; ++o) sum += dy[n * outputs + o] * weight[o * inputs + i];
      dx[n * inputs + i] += sum;
    }
  }
  return {.tensors = {{"dx", as_double(dx)}}, .state = in.state};
}

template <class Real>
test::Values evaluate(const op::MatmulBackwardWeight<Tensor>& op, const test::Values& in) {
  const size_t inputs = static_cast<size_t>(op.x.columns());
  const size_t outputs = static_cast<size_t>(op.dy.columns());
  const std::vector<Real> x = as_real<Real>(in.at("x"));
  const std::vector<Real> dy = as_real<Real>(in.at("dy"));
  const size_t rows = x.size() / inputs;
  std::vector<Real> dweight(outputs * inputs);
  if (op.accumulate) dweight = as_real<Real>(in.at("dweight"));
  for (size_t o = 0; o < outputs; ++o) {
    for (size_t i = 0; i < inputs; ++i) {
      Real sum = 0;
      for (size_t n = 0; n < rows; ++n) sum += dy[n * outputs + o] * x[n * inputs + i];
      dweight[o * inputs + i] += sum;
    }
  }
  return {.tensors = {{"dweight", as_double(dweight)}}, .state = in.state};
}

template test::Values evaluate<double>(const op::MatmulForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::MatmulForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::MatmulBackwardInput<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::MatmulBackwardInput<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::MatmulBackwardWeight<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::MatmulBackwardWeight<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
