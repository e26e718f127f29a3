// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy, one row at a time: the value of a row never depends on how rows are cut into chunks.
#include <algorithm>
#include <cmath>

#include "core/step_state.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 4;

bool is_scored(int32_t label, int64_t vocab) {
  return label >= 0 && label < vocab;
}

/// log(sum(exp(logits))) with the maximum taken out; `maximum` and `sum` are handed back for the gradient.
template <class T>
float log_sum_exp(const T* logits, int64_t vocab, float& maximum, float& sum) {
  maximum = load_float(logits[0]);
  for (int64_t v = 1; v < vocab; ++v) maximum = std::max(maximum, load_float(logits[v]));
  sum = 0;
  for (int64_t v = 0; v < vocab; ++v) sum += std::exp(load_float(logits[v]) - maximum);
  return maximum + std::log(sum);
}

template <class T>
void loss_row(const op::CrossEntropy<Tensor>& op, int64_t row) {
  const int64_t vocab = op.logits.columns();
  T* logits = op.logits.as<T>() + row * vocab;
  const int32_t label = op.labels.as<int32_t>()[row];
  const bool scored = is_scored(label, vocab);
  float maximum = 0;
  float sum = 1;
  float lse = 0;
  if (scored || op.log_sum_exp.has_value()) lse = log_sum_exp(logits, vocab, maximum, sum);
  if (op.log_sum_exp.has_value()) op.log_sum_exp.as<float>()[row] = lse;
  op.losses.as<float>()[row] = scored ? lse - load_float(logits[label]) : 0.0f;
  if (!op.write_gradient) return;
  if (!scored) {
    std::fill(logits, logits + vocab, T{});
    return;
  }
  const float scale = (1.0f + 2.0f * op.z_coefficient * lse) / sum;
  const float label_logit = load_float(logits[label]);
  for (int64_t v = 0; v < vocab; ++v) store_float(logits[v], std::exp(load_float(logits[v]) - maximum) * scale);
  store_float(logits[label], std::exp(label_logit - maximum) * scale - 1.0f);
}

}  // namespace

void CpuBackend::run(const op::CrossEntropy<Tensor>& op) {
  const int64_t rows = op.labels.num_elements();
  const int64_t vocab = op.logits.columns();
  const int32_t* labels = op.labels.as<int32_t>();
  auto* state = static_cast<StepState*>(op.state.data);
  state->bad_tokens += std::count_if(
      labels, labels + rows, [&](int32_t label) { return label != op::kIgnoredLabel && !is_scored(label, vocab); });
  visit_float_dtype(op.kName, op.logits.dtype, [&](auto tag) {
    parallel_ranges(threads_, rows, kRowsPerBlock, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) loss_row<typename decltype(tag)::type>(op, row);
    });
  });
}

void CpuBackend::run(const op::LossReduce<Tensor>& op) {
  const int64_t rows = op.labels.num_elements();
  const int32_t* labels = op.labels.as<int32_t>();
  const float* losses = op.losses.as<float>();
  const float* log_sum_exp = op.log_sum_exp.has_value() ? op.log_sum_exp.as<float>() : nullptr;
  double loss_sum = 0;
  double square_sum = 0;
  int64_t scored = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (labels[row] < 0) continue;
    loss_sum += static_cast<double>(losses[row]);
    ++scored;
    if (log_sum_exp != nullptr) {
      square_sum += static_cast<double>(log_sum_exp[row]) * static_cast<double>(log_sum_exp[row]);
    }
  }
  auto* state = static_cast<StepState*>(op.state.data);
  state->loss_sum += loss_sum;
  state->supervised_tokens += scored;
  state->z_loss_sum += static_cast<double>(op.z_coefficient) * square_sum;
}

}  // namespace litespark::cpu
