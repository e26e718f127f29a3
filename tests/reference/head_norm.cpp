// SPDX-License-Identifier: Apache-2.0
#include "reference/head_norm.h"

#include <cmath>

#include "reference/real.h"

namespace litespark::reference {

template <class Real>
test::Values evaluate(const op::HeadNormForward<Tensor>& op, const test::Values& in) {
  const size_t dim = static_cast<size_t>(op.head_dim);
  const size_t queries = static_cast<size_t>(op.num_heads);
  const size_t normed = queries + static_cast<size_t>(op.num_kv_heads);
  const size_t heads = normed + static_cast<size_t>(op.num_kv_heads);
  const std::vector<Real> qkv = as_real<Real>(in.at("qkv"));
  const std::vector<Real> q_weight = as_real<Real>(in.at("q_weight"));
  const std::vector<Real> k_weight = as_real<Real>(in.at("k_weight"));
  const size_t tokens = qkv.size() / (heads * dim);
  std::vector<Real> out = qkv;
  std::vector<Real> rstd(tokens * normed);
  for (size_t n = 0; n < tokens; ++n) {
    for (size_t h = 0; h < normed; ++h) {
      const size_t first = (n * heads + h) * dim;
      const std::vector<Real>& weight = h < queries ? q_weight : k_weight;
      Real squares = 0;
      for (size_t d = 0; d < dim; ++d) squares += qkv[first + d] * qkv[first + d];
      const Real scale = 1 / std::sqrt(squares / static_cast<Real>(dim) + static_cast<Real>(op.eps));
      rstd[n * normed + h] = scale;
      for (size_t d = 0; d < dim; ++d) out[first + d] = qkv[first + d] * scale * weight[d];
    }
  }
  return {.tensors = {{"out", as_double(out)}, {"rstd", as_double(rstd)}}, .state = in.state};
}

template <class Real>
test::Values evaluate(const op::HeadNormBackward<Tensor>& op, const test::Values& in) {
  const size_t dim = static_cast<size_t>(op.head_dim);
  const size_t queries = static_cast<size_t>(op.num_heads);
  const size_t normed = queries + static_cast<size_t>(op.num_kv_heads);
  const size_t heads = normed + static_cast<size_t>(op.num_kv_heads);
  const std::vector<Real> qkv = as_real<Real>(in.at("qkv"));
  const std::vector<Real> rstd = as_real<Real>(in.at("rstd"));
  const std::vector<Real> dout = as_real<Real>(in.at("dqkv"));
  const std::vector<Real> q_weight = as_real<Real>(in.at("q_weight"));
  const std::vector<Real> k_weight = as_real<Real>(in.at("k_weight"));
  std::vector<Real> dqkv = dout;
  std::vector<Real> dq_weight(dim);
  std::vector<Real> dk_weight(dim);
  if (op.accumulate) {
    dq_weight = as_real<Real>(in.at("dq_weight"));
    dk_weight = as_real<Real>(in.at("dk_weight"));
  }
  for (size_t n = 0; n < qkv.size() / (heads * dim); ++n) {
    for (size_t h = 0; h < normed; ++h) {
      const size_t first = (n * heads + h) * dim;
      const std::vector<Real>& weight = h < queries ? q_weight : k_weight;
      std::vector<Real>& dweight = h < queries ? dq_weight : dk_weight;
      const Real scale = rstd[n * normed + h];
      Real mean = 0;
      for (size_t d = 0; d < dim; ++d) mean += weight[d] * dout[first + d] * qkv[first + d];
      mean /= static_cast<Real>(dim);
      for (size_t d = 0; d < dim; ++d) {
        dqkv[first + d] = scale * (weight[d] * dout[first + d] - qkv[first + d] * scale * scale * mean);
        dweight[d] += dout[first + d] * qkv[first + d] * scale;
      }
    }
  }
  return {
      .tensors = {{"dqkv", as_double(dqkv)}, {"dq_weight", as_double(dq_weight)}, {"dk_weight", as_double(dk_weight)}},
      .state = in.state};
}

template test::Values evaluate<double>(const op::HeadNormForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::HeadNormForward<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::HeadNormBackward<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::HeadNormBackward<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
