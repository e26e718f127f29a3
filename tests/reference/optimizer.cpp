// SPDX-License-Identifier: Apache-2.0
#include "reference/optimizer.h"

#include <algorithm>
#include <cmath>

#include "reference/real.h"

namespace litespark::reference {

template <class Real>
test::Values evaluate(const op::GradientSquareSum<Tensor>& op, const test::Values& in) {
  test::Values result{.tensors = {}, .state = in.state};
  for (const double value : in.at("gradient")) result.state.gradient_square_sum += op.factor * value * value;
  return result;
}

template <class Real>
test::Values evaluate(const op::StepDecision<Tensor>& op, const test::Values& in) {
  test::Values result{.tensors = {}, .state = in.state};
  StepState& state = result.state;
  const double norm = std::sqrt(state.gradient_square_sum) / static_cast<double>(state.supervised_tokens);
  bool skip = state.supervised_tokens == 0 || state.bad_tokens > 0 || !std::isfinite(norm);
  skip = skip || !std::isfinite(state.loss_sum) || (state.spike_limit > 0 && norm > state.spike_limit);
  state.skipped = skip ? 1 : 0;
  if (skip) {
    ++state.skipped_steps;
    return result;
  }
  const double clip = state.clip_norm > 0 ? std::min(1.0, state.clip_norm / (norm + 1e-6)) : 1.0;
  state.gradient_norm = static_cast<float>(norm);
  state.gradient_scale = static_cast<float>(clip / static_cast<double>(state.supervised_tokens));
  ++state.optimizer_steps;
  state.bias_correction1 = static_cast<float>(1 - std::pow(op.beta1, static_cast<double>(state.optimizer_steps)));
  state.bias_correction2 = static_cast<float>(1 - std::pow(op.beta2, static_cast<double>(state.optimizer_steps)));
  return result;
}

template <class Real>
test::Values evaluate(const op::AdamW<Tensor>& op, const test::Values& in) {
  std::vector<Real> master = as_real<Real>(in.at("master"));
  std::vector<Real> first = as_real<Real>(in.at("first_moment"));
  std::vector<Real> second = as_real<Real>(in.at("second_moment"));
  const std::vector<Real> gradient = as_real<Real>(in.at("gradient"));
  const StepState& state = in.state;
  test::Values result{.tensors = {}, .state = in.state};
  if (op.weight.has_value()) result.tensors["weight"] = in.at("weight");
  if (state.skipped == 0) {
    const Real beta1 = static_cast<Real>(op.beta1);
    const Real beta2 = static_cast<Real>(op.beta2);
    const Real new1 = static_cast<Real>(1 - op.beta1);
    const Real new2 = static_cast<Real>(1 - op.beta2);
    const Real rate = static_cast<Real>(state.learning_rate);
    const Real decay = static_cast<Real>(1 - static_cast<double>(state.learning_rate) * op.weight_decay);
    for (size_t i = 0; i < master.size(); ++i) {
      const Real g = gradient[i] * static_cast<Real>(static_cast<double>(state.gradient_scale) * op.gradient_factor);
      first[i] = beta1 * first[i] + new1 * g;
      second[i] = beta2 * second[i] + new2 * g * g;
      const Real mean = first[i] / static_cast<Real>(state.bias_correction1);
      const Real spread = std::sqrt(second[i] / static_cast<Real>(state.bias_correction2)) + static_cast<Real>(op.eps);
      master[i] = master[i] * decay - rate * mean / spread;
    }
    if (op.weight.has_value()) result.tensors["weight"] = as_double(master);
  }
  result.tensors["master"] = as_double(master);
  result.tensors["first_moment"] = as_double(first);
  result.tensors["second_moment"] = as_double(second);
  return result;
}

template test::Values evaluate<double>(const op::GradientSquareSum<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::GradientSquareSum<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::StepDecision<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::StepDecision<Tensor>& op, const test::Values& in);
template test::Values evaluate<double>(const op::AdamW<Tensor>& op, const test::Values& in);
template test::Values evaluate<float>(const op::AdamW<Tensor>& op, const test::Values& in);

}  // namespace litespark::reference
