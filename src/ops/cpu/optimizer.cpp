// SPDX-License-Identifier: Apache-2.0
// The optimizer phase: the gradients' square sum, the decision to step, AdamW.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/step_state.h"
#include "ops/cpu/abs_max.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
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
  const auto* gradient = static_cast<const std::byte*>(op.gradient.data);
  const int64_t element_bytes = dtype_bytes(op.gradient.dtype);
  double* partials = op.partials.as<double>();
  const auto square_sum = kernel_table(isa_).square_sum[index_of(op.gradient.dtype)];
  parallel_ranges(threads_, size, op::kSquareSumBlock, [&](int64_t begin, int64_t end) {
    partials[begin / op::kSquareSumBlock] = square_sum(gradient + begin * element_bytes, end - begin);
  });
  double total = 0;
  for (int64_t block = 0; block < ceil_div(size, op::kSquareSumBlock); ++block) total += partials[block];
  static_cast<StepState*>(op.state.data)->gradient_square_sum += op.factor * total;
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
  const double rate = static_cast<double>(state.learning_rate);
  const AdamWPart whole{
      .master = op.master.has_value() ? op.master.as<float>() : nullptr,
      .first_moment = op.first_moment.data,
      .second_moment = op.second_moment.data,
      .weight = op.weight.has_value() ? op.weight.as<bf16>() : nullptr,
      .remainder = op.remainder.has_value() ? op.remainder.as<uint16_t>() : nullptr,
      .gradient = op.gradient.data,
      .size = op.gradient.num_elements(),
      .seed = op.seed,
      .noise_step = state.rng_counter,
      .first_element = op.first_element,
      .gradient_scale = state.gradient_scale * static_cast<float>(op.gradient_factor),
      .beta1 = static_cast<float>(op.beta1),
      .new1 = static_cast<float>(1.0 - op.beta1),
      .beta2 = static_cast<float>(op.beta2),
      .new2 = static_cast<float>(1.0 - op.beta2),
      .inverse_root_correction = static_cast<float>(1.0 / std::sqrt(static_cast<double>(state.bias_correction2))),
      .eps = static_cast<float>(op.eps),
      .step = static_cast<float>(rate / static_cast<double>(state.bias_correction1)),
      .decay = static_cast<float>(1.0 - rate * op.weight_decay)};
  const DType moments = op.first_moment.dtype;
  const DType gradients = op.gradient.dtype;
  const auto kernel = kernel_table(isa_).adamw[static_cast<int>(op.form())][index_of(moments)][index_of(gradients)];
  parallel_ranges(threads_, whole.size, kElementsPerBlock, [&](int64_t begin, int64_t end) {
    AdamWPart part = whole;
    if (part.master != nullptr) part.master += begin;
    if (part.weight != nullptr) part.weight += begin;
    if (part.remainder != nullptr) part.remainder += begin;
    part.first_moment = static_cast<std::byte*>(whole.first_moment) + begin * dtype_bytes(moments);
    part.second_moment = static_cast<std::byte*>(whole.second_moment) + begin * dtype_bytes(moments);
    part.gradient = static_cast<const std::byte*>(whole.gradient) + begin * dtype_bytes(gradients);
    part.first_element += begin;
    part.size = end - begin;
    kernel(part);
  });
  raise_abs_max(threads_, op.abs_max, op.weight.has_value() ? op.weight : op.master);
}

}  // namespace litespark::cpu
