// SPDX-License-Identifier: Apache-2.0
#include "reference/loss.h"

#include <algorithm>
#include <cmath>

#include "reference/real.h"

namespace litespark::reference {

template <class Real>
test::Values evaluate(const op::CrossEntropy<Tensor>& op, const test::Values& in) {
  const size_t vocab = static_cast<size_t>(op.logits.columns());
  const std::vector<Real> logits = as_real<Real>(in.at("logits"));
  const auto& labels = in.at("labels");
  std::vector<Real> losses(labels.size());
  std::vector<Real> log_sum_exp(labels.size());
  std::vector<Real> gradient(logits.size());
  test::Values result{.tensors = {}, .state = in.state};
  for (size_t n = 0; n < labels.size(); ++n) {
    const Real* row = logits.data() + n * vocab;
    const Real maximum = *std::max_element(row, row + vocab);
    Real sum = 0;
    for (size_t v = 0; v < vocab; ++v) sum += std::exp(row[v] - maximum);
    log_sum_exp[n] = maximum + std::log(sum);
    const bool scored = labels[n] >= 0 && labels[n] < static_cast<double>(vocab);
    if (!scored) {
      result.state.bad_tokens += labels[n] != op::kIgnoredLabel ? 1 : 0;
      continue;
    }
    const size_t label = static_cast<size_t>(labels[n]);
    losses[n] = log_sum_exp[n] - row[label];
    const Real z_slope = 2 * static_cast<Real>(op.z_coefficient) * log_sum_exp[n];
    for (size_t v = 0; v < vocab; ++v) {
      const Real probability = std::exp(row[v] - maximum) / sum;
      gradient[n * vocab + v] = probability * (1 + z_slope) - (v == label ? Real{1} : Real{0});
    }
  }
  result.tensors["losses"] = as_double(losses);
  if (op.log_sum_exp.has_value()) result.tensors["log_sum_exp"] = as_double(log_sum_exp);
  if (op.write_gradient) result.tensors["logits"] = as_double(gradient);
  return result;
}

template <class Real>
test::Values evaluate(const op::LossReduce<Tensor>& op, const test::Values& in) {
  const auto& labels = in.at("labels");
  test::Values result{.tensors = {}, .state = in.state};
  for (size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] == op::kIgnoredLabel) continue;
    ++result.state.supervised_tokens;
    result.state.loss_sum += in.at("losses")[n];
    if (!op.log_sum_exp.has_value()) continue;
    const double lse = in.at("log_sum_exp")[n];
    result.state.z_loss_sum += static_cast<double>(op.z_coefficient) * lse * lse;
  }
  return result;
}

template test::Values evaluate<double>(const op::CrossEntropy<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::CrossEntropy<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::LossReduce<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::LossReduce<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
