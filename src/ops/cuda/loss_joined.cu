// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of a vocabulary that is cut between ranks: each row's statistics of this rank, and, from those
// of all, the losses and this rank's part of the gradient.
#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/online_softmax.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kJoinedThreads = 512;

/// What both kernels read of this rank's rows.
template <class T>
struct PartArgs {
  T* logits;
  const int32_t* labels;
  int64_t stride;  // columns with padding
  int64_t first_id;
  int columns;

  /// The label's place among the columns; -1: another rank has it.
  __device__ int place_of(int label) const {
    const int64_t place = label - first_id;
    return place >= 0 && place < columns ? static_cast<int>(place) : -1;
  }
};

template <class T>
struct JoinedArgs {
  PartArgs<T> part;
  float* losses;
  float* log_sum_exp;  // may be nullptr
  const float* statistics;
  StepState* state;
  int64_t rows;
  int64_t ranks;
  int64_t vocab;
  float z_coefficient;
  bool write_gradient;
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kJoinedThreads) row_statistics_kernel(PartArgs<T> part, float* statistics);

template <class T, int kWidth>
__global__ void __launch_bounds__(kJoinedThreads) joined_gradient_kernel(JoinedArgs<T> args);

template <class T, class Op>
PartArgs<T> part_of(const Op& op) {
  return {.logits = op.logits.template as<T>(),
          .labels = op.labels.template as<int32_t>(),
          .stride = op.logits.columns(),
          .first_id = op.first_id,
          .columns = static_cast<int>(op.columns)};
}

}  // namespace

void CudaBackend::run(const op::CrossEntropyPart<Tensor>& op) {
  const int64_t rows = op.labels.num_elements();
  if (rows == 0) return;
  const unsigned grid = grid_size(op.kName, rows);
  visit_float_dtype(op.kName, op.logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const PartArgs<T> part = part_of<T>(op);
    if (part.stride % kVectorWidth == 0) {
      row_statistics_kernel<T, kVectorWidth>
          <<<grid, kJoinedThreads, 0, context_.stream>>>(part, op.statistics.as<float>());
    } else {
      row_statistics_kernel<T, 1><<<grid, kJoinedThreads, 0, context_.stream>>>(part, op.statistics.as<float>());
    }
  });
  check_launch(op.kName);
}

void CudaBackend::run(const op::CrossEntropyJoined<Tensor>& op) {
  const int64_t rows = op.labels.num_elements();
  if (rows == 0) return;
  const unsigned grid = grid_size(op.kName, rows);
  visit_float_dtype(op.kName, op.logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const JoinedArgs<T> args{.part = part_of<T>(op),
                             .losses = op.losses.as<float>(),
                             .log_sum_exp = pointer_or_null<float>(op.log_sum_exp),
                             .statistics = op.statistics.as<const float>(),
                             .state = static_cast<StepState*>(op.state.data),
                             .rows = rows,
                             .ranks = op.ranks,
                             .vocab = op.vocab,
                             .z_coefficient = op.z_coefficient,
                             .write_gradient = op.write_gradient};
    if (args.part.stride % kVectorWidth == 0) {
      joined_gradient_kernel<T, kVectorWidth><<<grid, kJoinedThreads, 0, context_.stream>>>(args);
    } else {
      joined_gradient_kernel<T, 1><<<grid, kJoinedThreads, 0, context_.stream>>>(args);
    }
  });
  check_launch(op.kName);
}

namespace {

// One block a row, one read: 2 bytes of traffic a logit in bf16. What does not fill a vector is added one by one.
template <class T, int kWidth>
__global__ void __launch_bounds__(kJoinedThreads) row_statistics_kernel(PartArgs<T> part, float* statistics) {
  __shared__ OnlineSum shared[kJoinedThreads / kWarpSize];
  const int64_t row = blockIdx.x;
  const T* logits = part.logits + row * part.stride;
  const int thread = static_cast<int>(threadIdx.x);
  const int vectors = part.columns / kWidth;
  OnlineSum running;
  for (int vector = thread; vector < vectors; vector += kJoinedThreads) {
    running = fold<T>(running, load_pack<kWidth>(logits + vector * kWidth));
  }
  for (int column = vectors * kWidth + thread; column < part.columns; column += kJoinedThreads) {
    running = fold<T>(running, load_pack<1>(logits + column));
  }
  running = block_merge<T>(running, shared);
  if (thread != 0) return;
  const int place = part.place_of(part.labels[row]);
  float* out = statistics + row * op::kRowStatistics;
  out[0] = running.max;
  out[1] = running.sum;
  out[2] = place >= 0 ? as_float(logits[place]) : 0.0f;
}

// One block a row: 4 bytes of traffic a logit in bf16. Every thread merges the ranks' statistics for itself.
template <class T, int kWidth>
__global__ void __launch_bounds__(kJoinedThreads) joined_gradient_kernel(JoinedArgs<T> args) {
  const PartArgs<T>& part = args.part;
  const int64_t row = blockIdx.x;
  T* logits = part.logits + row * part.stride;
  const int thread = static_cast<int>(threadIdx.x);
  const int label = args.part.labels[row];
  const bool is_scored = label >= 0 && label < args.vocab;
  OnlineSum total;
  float label_logit = 0;
  for (int64_t rank = 0; rank < args.ranks; ++rank) {
    const float* statistics = args.statistics + (rank * args.rows + row) * op::kRowStatistics;
    total = merge<T>(total, {statistics[0], statistics[1]});
    label_logit += statistics[2];
  }
  const float log_sum_exp = log_of<T>(total);
  if (thread == 0) {
    if (args.log_sum_exp != nullptr) args.log_sum_exp[row] = log_sum_exp;
    args.losses[row] = is_scored ? log_sum_exp - label_logit : 0.0f;
    if (!is_scored && label != op::kIgnoredLabel) count_bad_token(args.state);
  }
  if (!args.write_gradient) return;
  const RowGradient<T> gradient(total, log_sum_exp, args.z_coefficient);
  // Far from every column where another rank has the label.
  const int found = part.place_of(label);
  const int place = found >= 0 ? found : -2 * kWidth;
  const int vectors = is_scored ? part.columns / kWidth : 0;
  for (int vector = thread; vector < vectors; vector += kJoinedThreads) {
    float values[kWidth];
    gradient.of(load_pack<kWidth>(logits + vector * kWidth), vector * kWidth, place, values);
    store_floats(logits + vector * kWidth, values);
  }
  for (int64_t column = vectors * kWidth + thread; column < part.stride; column += kJoinedThreads) {
    float value[1] = {};
    if (is_scored && column < part.columns) {
      gradient.of(load_pack<1>(logits + column), static_cast<int>(column), place, value);
    }
    logits[column] = from_float<T>(value[0]);
  }
}

}  // namespace
}  // namespace litespark::cuda
