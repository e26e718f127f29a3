// SPDX-License-Identifier: Apache-2.0
// The optimizer phase: the gradients' square sum, the decision to step, AdamW.
#include <algorithm>
#include <cmath>

#include "core/step_state.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kElementsPerBlock = 16384;

/// Why a step must not be taken; the norm is that of the normalised gradient.
bool must_skip(const StepState& state, double norm) {
  if (state.supervised_tokens <= 0 || state.bad_tokens > 0) return true;
  if (!std::isfinite(state.loss_sum) || !std::isfinite(state.z_loss_sum) || !std::isfinite(norm)) return true;
  return state.spike_limit > 0 && norm > static_cast<double>(state.spike_limit);
}

}  // namespace

void CpuBackend::run(const op::GradientSquareSum<Tensor>& op) {
  const int64_t size = op.gradient.num_elements();
  const float* gradient = op.gradient.as<float>();
  double* partials = op.partials.as<double>();
  parallel_ranges(threads_, size, op::kSquareSumBlock, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    partials[begin / op::kSquareSumBlock] = sum;
  });
  double total = 0;
  for (int64_t block = 0; block < ceil_div(size, op::kSquareSumBlock); ++block) total += partials[block];
  static_cast<StepState*>(op.state.data)->gradient_square_sum += total;
}

void CpuBackend::run(const op::StepDecision<Tensor>& op) {
  auto& state = *static_cast<StepState*>(op.state.data);
  const double tokens = static_cast<double>(std::max<int64_t>(state.supervised_tokens, 1));
  const double norm = std::sqrt(state.gradient_square_sum) / tokens;
  state.gradient_norm = static_cast<float>(norm);
  const double clip = static_cast<double>(state.clip_norm);
  const double factor = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
  state.skipped = must_skip(state, norm) ? 1 : 0;
  if (state.skipped != 0) {
    state.gradient_scale = 0;
    ++state.skipped_steps;
    return;
  }
  state.gradient_scale = static_cast<float>(factor / tokens);
  ++state.optimizer_steps;
  const double step = static_cast<double>(state.optimizer_steps);
  state.bias_correction1 = static_cast<float>(1.0 - std::pow(op.beta1, step));
  state.bias_correction2 = static_cast<float>(1.0 - std::pow(op.beta2, step));
}

void CpuBackend::run(const op::AdamW<Tensor>& op) {
  const auto& state = *static_cast<const StepState*>(op.state.data);
  if (state.skipped != 0) return;
  float* master = op.master.as<float>();
  float* first = op.first_moment.as<float>();
  float* second = op.second_moment.as<float>();
  const float* gradient = op.gradient.as<float>();
  bf16* weight = op.weight.has_value() ? op.weight.as<bf16>() : nullptr;
  const float decay = static_cast<float>(1.0 - static_cast<double>(state.learning_rate) * op.weight_decay);
  const float beta1 = static_cast<float>(op.beta1);
  const float beta2 = static_cast<float>(op.beta2);
  const float new1 = static_cast<float>(1.0 - op.beta1);
  const float new2 = static_cast<float>(1.0 - op.beta2);
  const float eps = static_cast<float>(op.eps);
  parallel_ranges(threads_, op.master.num_elements(), kElementsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float g = gradient[i] * state.gradient_scale;
      first[i] = beta1 * first[i] + new1 * g;
      second[i] = beta2 * second[i] + new2 * g * g;
      const float denominator = std::sqrt(second[i] / state.bias_correction2) + eps;
      master[i] = master[i] * decay - state.learning_rate * (first[i] / state.bias_correction1) / denominator;
      if (weight != nullptr) weight[i] = to_bf16(master[i]);
    }
  });
}

}  // namespace litespark::cpu
