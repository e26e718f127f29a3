// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of a vocabulary that is cut between ranks: each row's statistics of this rank, and, from those
// of all, the losses and this rank's part of the gradient.
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

bool is_within(int64_t id, int64_t size) {
  return id >= 0 && id < size;
}

float logit_at(const void* row, DType dtype, int64_t index) {
  return dtype == DType::kF32 ? static_cast<const float*>(row)[index] : to_float(static_cast<const bf16*>(row)[index]);
}

/// One row's statistics of all ranks, put together in their order.
struct JoinedRow {
  float maximum = -__builtin_inff();
  double sum = 0;
  float label_logit = 0;

  JoinedRow(const float* first, int64_t ranks, int64_t stride) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const float* statistics = first + rank * stride;
      // A maximum that is NaN has a sum that is NaN.
      if (statistics[0] > maximum) maximum = statistics[0];
      label_logit += statistics[2];
    }
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const float* statistics = first + rank * stride;
      if (statistics[1] == 0) continue;  // a rank without logits
      sum += static_cast<double>(statistics[1]) *
             std::exp(static_cast<double>(statistics[0]) - static_cast<double>(maximum));
    }
  }
};

struct JoinedKernels {
  const op::CrossEntropyJoined<Tensor>& op;
  const KernelTable& table;

  void run_row(void* logits, int64_t row) const {
    const int64_t stride = op.labels.num_elements() * op::kRowStatistics;
    const int32_t label = op.labels.as<int32_t>()[row];
    const bool is_scored = is_within(label, op.vocab);
    const JoinedRow joined(op.statistics.as<float>() + row * op::kRowStatistics, op.ranks, stride);
    const double log_sum = std::log(joined.sum);
    const double lse = static_cast<double>(joined.maximum) + log_sum;
    if (op.log_sum_exp.has_value()) op.log_sum_exp.as<float>()[row] = static_cast<float>(lse);
    // The two large numbers are subtracted first: close to a certain prediction only log_sum is left.
    const float gap = joined.maximum - joined.label_logit;
    op.losses.as<float>()[row] = is_scored ? static_cast<float>(static_cast<double>(gap) + log_sum) : 0.0f;
    if (!op.write_gradient) return;
    if (!is_scored) return clear(logits, 0);
    if (op.columns > 0) {
      const double slope = 1.0 + 2.0 * static_cast<double>(op.z_coefficient) * lse;
      const int64_t place = label - op.first_id;
      table.softmax_gradient[index_of(op.logits.dtype)]({.logits = logits,
                                                         .size = op.columns,
                                                         .label = is_within(place, op.columns) ? place : -1,
                                                         .maximum = joined.maximum,
                                                         .scale = static_cast<float>(slope / joined.sum)});
    }
    clear(logits, op.columns);
  }

  /// Columns from `first` on.
  void clear(void* logits, int64_t first) const {
    const int64_t bytes = dtype_bytes(op.logits.dtype);
    std::memset(static_cast<std::byte*>(logits) + first * bytes, 0,
                static_cast<size_t>((op.logits.columns() - first) * bytes));
  }
};

}  // namespace

void CpuBackend::run(const op::CrossEntropyPart<Tensor>& op) {
  const auto statistics_of = kernel_table(isa_).softmax_statistics[index_of(op.logits.dtype)];
  const Rows logits(op.logits);
  parallel_ranges(threads_, op.labels.num_elements(), kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const SoftmaxStatistics found = op.columns > 0 ? statistics_of(logits.row(row), op.columns)
                                                     : SoftmaxStatistics{.maximum = -__builtin_inff(), .sum = 0};
      const int64_t place = op.labels.as<int32_t>()[row] - op.first_id;
      float* out = op.statistics.as<float>() + row * op::kRowStatistics;
      out[0] = found.maximum;
      out[1] = static_cast<float>(found.sum);
      out[2] = is_within(place, op.columns) ? logit_at(logits.row(row), op.logits.dtype, place) : 0.0f;
    }
  });
}

void CpuBackend::run(const op::CrossEntropyJoined<Tensor>& op) {
  const int64_t rows = op.labels.num_elements();
  const int32_t* labels = op.labels.as<int32_t>();
  auto* state = static_cast<StepState*>(op.state.data);
  state->bad_tokens += std::count_if(
      labels, labels + rows, [&](int32_t label) { return label != op::kIgnoredLabel && !is_within(label, op.vocab); });
  const JoinedKernels kernels{.op = op, .table = kernel_table(isa_)};
  const Rows logits(op.logits);
  parallel_ranges(threads_, rows, kRowsPerBlock, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) kernels.run_row(logits.row(row), row);
  });
}

}  // namespace litespark::cpu
