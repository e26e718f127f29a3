// SPDX-License-Identifier: Apache-2.0
#include "reference/rms_norm.h"

#include <cmath>

#include "reference/real.h"

namespace litespark::reference {

template <class Real>
test::Values evaluate(const op::RmsNormForward<Tensor>& op, const test::Values& in) {
  const size_t rows = static_cast<size_t>(op.x.rows());
  const size_t channels = static_cast<size_t>(op.x.columns());
  test::Values result{.tensors = {}, .state = in.state};
  std::vector<double> x = in.at("x");
  if (op.delta.has_value()) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = test::round_to(op.sum.dtype, x[i] + in.at("delta")[i]);
    result.tensors["sum"] = x;
  }
  const std::vector<Real> weight = as_real<Real>(in.at("weight"));
  std::vector<Real> rstd(rows);
  std::vector<Real> y(rows * channels);
  for (size_t n = 0; n < rows; ++n) {
    Real squares = 0;
    for (size_t c = 0; c < channels; ++c) {
      const Real value = static_cast<Real>(x[n * channels + c]);
      squares += value * value;
    }
    rstd[n] = 1 / std::sqrt(squares / static_cast<Real>(channels) + static_cast<Real>(op.eps));
    for (size_t c = 0; c < channels; ++c) {
      y[n * channels + c] = static_cast<Real>(x[n * channels + c]) * rstd[n] * weight[c];
    }
  }
  result.tensors["rstd"] = as_double(rstd);
  result.tensors["y"] = as_double(y);
  return result;
}

template <class Real>
test::Values evaluate(const op::RmsNormBackward<Tensor>& op, const test::Values& in) {
  const size_t rows = static_cast<size_t>(op.x.rows());
  const size_t channels = static_cast<size_t>(op.x.columns());
  const std::vector<Real> x = as_real<Real>(in.at("x"));
  const std::vector<Real> dy = as_real<Real>(in.at("dy"));
  const std::vector<Real> rstd = as_real<Real>(in.at("rstd"));
  const std::vector<Real> weight = as_real<Real>(in.at("weight"));
  std::vector<Real> dresidual(rows * channels);
  if (!op.first) dresidual = as_real<Real>(in.at("dresidual"));
  std::vector<Real> dweight(channels);
  if (op.accumulate) dweight = as_real<Real>(in.at("dweight"));
  for (size_t n = 0; n < rows; ++n) {
    Real mean = 0;
    for (size_t c = 0; c < channels; ++c) mean += weight[c] * dy[n * channels + c] * x[n * channels + c];
    mean /= static_cast<Real>(channels);
    for (size_t c = 0; c < channels; ++c) {
      const size_t i = n * channels + c;
      dresidual[i] += rstd[n] * (weight[c] * dy[i] - x[i] * rstd[n] * rstd[n] * mean);
      dweight[c] += dy[i] * x[i] * rstd[n];
    }
  }
  test::Values result{.tensors = {{"dresidual", as_double(dresidual)}, {"dweight", as_double(dweight)}},
                      .state = in.state};
  if (op.dresidual_cast.has_value()) result.tensors["dresidual_cast"] = as_double(dresidual);
  return result;
}

template test::Values evaluate<double>(const op::RmsNormForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::RmsNormForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::RmsNormBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::RmsNormBackward<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
