// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy, one row at a time: the value of a row never depends on how rows are cut into chunks.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/step_state.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/kernel_table.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"

namespace litespark::cpu {
namespace {

constexpr int64_t kRowsPerBlock = 4;

bool is_scored(int32_t label, int64_t vocab) {
  return label >= 0 && label < vocab;
}

struct LossKernels {
  const op::CrossEntropy<Tensor>& op;
  const KernelTable& table;
  int dtype;

  float logit(const void* row, int32_t index) const {
    return dtype == 0 ? static_cast<const float*>(row)[index] : to_float(static_cast<const bf16*>(row)[index]);
  }

  void run_row(void* logits, int64_t row) const {
    const int64_t vocab = op.logits.columns();
    const int32_t label = op.labels.as<int32_t>()[row];
    const bool scored = is_scored(label, vocab);
    float loss = 0;
    if (scored || op.log_sum_exp.has_value()) {
      const SoftmaxStatistics statistics = table.softmax_statistics[dtype](logits, vocab);
      const double log_sum = std::log(statistics.sum);
      const double lse = static_cast<double>(statistics.maximum) + log_sum;
      if (op.log_sum_exp.has_value()) op.log_sum_exp.as<float>()[row] = static_cast<float>(lse);
      if (scored) {
        // The two large numbers are subtracted first: close to a certain prediction only log_sum is left.
        const float gap = statistics.maximum - logit(logits, label);
        loss = static_cast<float>(static_cast<double>(gap) + log_sum);
        const double slope = 1.0 + 2.0 * static_cast<double>(op.z_coefficient) * lse;
        if (op.write_gradient) {
          table.softmax_gradient[dtype]({.logits = logits,
                                         .size = vocab,
                                         .label = label,
                                         .maximum = statistics.maximum,
                                         .scale = static_cast<float>(slope / statistics.sum)});
        }
      }
    }
    op.losses.as<float>()[row] = loss;
    if (op.write_gradient && !scored) std::memset(logits, 0, static_cast<size_t>(vocab * dtype_bytes(op.logits.dtype)));
  }
};

}  // namespace

void CpuBackend::run(const op::CrossEntropy<Tensor>& op) {
  const int64_t rows = op.labels.num_elements();
  const int64_t vocab = op.logits.columns();
  const int32_t* labels = op.labels.as<int32_t>();
  auto* state = static_cast<StepState*>(op.state.data);
  state->bad_tokens += std::count_if(
      labels, labels + rows, [&](int32_t label) { return label != op::kIgnoredLabel && !is_scored(label, vocab); });
  const LossKernels kernels{.op = op, .table = kernel_table(isa_), .dtype = index_of(op.logits.dtype)};
  const Rows logits(op.logits);
  parallel_ranges(threads_, rows, kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) kernels.run_row(logits.row(row), row);
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
