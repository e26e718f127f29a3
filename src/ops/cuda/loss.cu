// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy over rows of logits, the gradient written over them, and the sums of a step.
#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/online_softmax.cuh"
#include "ops/cuda/heuristics/loss.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/loss.h"

namespace litespark::cuda {
namespace {

template <class T, int kWidth>
__global__ void __launch_bounds__(kLossMaxThreads, 1) cross_entropy_kernel(CrossEntropyArgs<T> args, int held_vectors);

template <class T, int kWidth>
void launch_cross_entropy(const CrossEntropyArgs<T>& args, const DeviceContext& context) {
  constexpr std::string_view kName = op::CrossEntropy<Tensor>::kName;
  const CrossEntropyRow row{.columns = args.columns,
                            .width = kWidth,
                            .element_bytes = sizeof(T),
                            .shared_bytes = context.shared_bytes_per_block};
  const LossRing ring = context.compute_capability >= 90 ? loss_ring_of_row(row) : LossRing{};
  if (context.kernels.loss_through_ring && ring.blocks > 0) {
    launch_loss_rows(args, ring, context);
    return;
  }
  const CrossEntropyShape shape = cross_entropy_shape(row);
  check(cudaFuncSetAttribute(cross_entropy_kernel<T, kWidth>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             shape.shared_bytes),
        kName);
  cross_entropy_kernel<T, kWidth>
      <<<grid_size(kName, args.rows), shape.threads, static_cast<size_t>(shape.shared_bytes), context.stream>>>(
          args, shape.held_vectors);
  check_launch(kName);
}

struct LossReduceArgs {
  StepState* state;
  const float* losses;
  const float* log_sum_exp;  // may be nullptr
  const int32_t* labels;
  int64_t rows;
  float z_coefficient;
};

inline constexpr int kReduceThreads = 1024;
__global__ void __launch_bounds__(kReduceThreads) loss_reduce_kernel(LossReduceArgs args);

}  // namespace

void CudaBackend::run(const op::CrossEntropy<Tensor>& op) {
  if (op.logits.num_elements() == 0) return;
  visit_float_dtype(op.kName, op.logits.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const CrossEntropyArgs<T> args{.losses = op.losses.as<float>(),
                                   .log_sum_exp = pointer_or_null<float>(op.log_sum_exp),
                                   .logits = op.logits.as<T>(),
                                   .labels = op.labels.as<int32_t>(),
                                   .state = static_cast<StepState*>(op.state.data),
                                   .rows = op.logits.rows(),
                                   .columns = static_cast<int>(op.logits.columns()),
                                   .z_coefficient = op.z_coefficient,
                                   .write_gradient = op.write_gradient};
    constexpr int kWide = 16 / static_cast<int>(sizeof(T));
    if (args.columns % kVectorWidth == 0) {
      launch_cross_entropy<T, kWide>(args, context_);
    } else {
      launch_cross_entropy<T, 1>(args, context_);
    }
  });
}

void CudaBackend::run(const op::LossReduce<Tensor>& op) {
  const LossReduceArgs args{.state = static_cast<StepState*>(op.state.data),
                            .losses = op.losses.as<float>(),
                            .log_sum_exp = pointer_or_null<float>(op.log_sum_exp),
                            .labels = op.labels.as<int32_t>(),
                            .rows = op.losses.num_elements(),
                            .z_coefficient = op.z_coefficient};
  loss_reduce_kernel<<<1, kReduceThreads, 0, context_.stream>>>(args);
  check_launch(op.kName);
}

namespace {

// One block a row. First pass: every thread folds its vectors into a running (max, sum), rescaled once a vector, and
// keeps as many of them as fit in shared memory, each thread in its own slots (no barrier needed). Second pass:
// p - one hot, from shared memory first, the rest read again, mostly from L2.
// Traffic a logit: one read, one write: 4 bytes in bf16. A row of 128,256 bf16 logits is 256.5 KB: one block of 1,024
// threads keeps 14/16 of it; 132 such rows are 34 MB, within the L2 of an H200, which serves the rest.
template <class T, int kWidth>
__global__ void __launch_bounds__(kLossMaxThreads, 1) cross_entropy_kernel(CrossEntropyArgs<T> args, int held_vectors) {
  constexpr int kBatch = 4;  // loads under way before the first use
  extern __shared__ __align__(16) unsigned char held_bytes[];
  __shared__ OnlineSum shared[kLossMaxThreads / kWarpSize];
  using Vector = Pack<T, kWidth>;
  Vector* held = reinterpret_cast<Vector*>(held_bytes);
  const int64_t row = blockIdx.x;
  T* logits = args.logits + row * args.columns;
  const int vectors = args.columns / kWidth;
  const int label = args.labels[row];
  const bool scored = label >= 0 && label < args.columns;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  if (thread == 0 && !scored) {
    args.losses[row] = 0;
    if (label != op::kIgnoredLabel) count_bad_token(args.state);
  }

  OnlineSum running;
  const bool wants_sum = scored || args.log_sum_exp != nullptr;
  for (int batch = 0; wants_sum && batch * threads < vectors; batch += kBatch) {
    Vector packs[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int vector = (batch + b) * threads + thread;
      if (vector < vectors) packs[b] = load_pack<kWidth>(logits + vector * kWidth);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int vector = (batch + b) * threads + thread;
      if (vector >= vectors) break;
      if (batch + b < held_vectors) held[vector] = packs[b];
      running = fold<T>(running, packs[b]);
    }
  }
  running = block_merge<T>(running, shared);
  const float log_sum_exp = log_of<T>(running);
  if (thread == 0) {
    if (args.log_sum_exp != nullptr) args.log_sum_exp[row] = log_sum_exp;
    if (scored) args.losses[row] = log_sum_exp - as_float(logits[label]);
  }
  if (!args.write_gradient) return;
  __syncthreads();  // the label's logit has been read

  if (!scored) {
    const float zeros[kWidth] = {};
    for (int vector = thread; vector < vectors; vector += threads) store_floats(logits + vector * kWidth, zeros);
    return;
  }
  const RowGradient<T> gradient(running, log_sum_exp, args.z_coefficient);
  const auto write_gradient = [&](int vector, const Vector& pack) {
    float values[kWidth];
    gradient.of(pack, vector * kWidth, label, values);
    store_floats(logits + vector * kWidth, values);
  };
  const int held_end = min(held_vectors * threads, vectors);
  for (int vector = thread; vector < held_end; vector += threads) {
    const Vector pack = held[vector];
    write_gradient(vector, pack);
  }
  for (int vector = held_vectors * threads + thread; vector < vectors; vector += 2 * threads) {
    const Vector near = load_pack<kWidth>(logits + vector * kWidth);
    const bool has_far = vector + threads < vectors;
    const Vector far = has_far ? load_pack<kWidth>(logits + (vector + threads) * kWidth) : near;
    write_gradient(vector, near);
    if (has_far) write_gradient(vector + threads, far);
  }
}

template <class T>
__device__ T wide_block_sum(T value, T* shared) {
  value = block_sum(value, shared);
  __syncthreads();
  return value;
}

// One block: thread t adds rows t, t + 1024, ... in order, then a fixed tree. 12 bytes a row, some 16,000 rows a step.
__global__ void __launch_bounds__(kReduceThreads) loss_reduce_kernel(LossReduceArgs args) {
  __shared__ double shared[kReduceThreads / kWarpSize];
  double loss = 0;
  double z_loss = 0;
  double count = 0;
#pragma unroll 4
  for (int64_t row = threadIdx.x; row < args.rows; row += kReduceThreads) {
    if (args.labels[row] < 0) continue;
    loss += static_cast<double>(args.losses[row]);
    count += 1.0;
    if (args.log_sum_exp == nullptr) continue;
    const double log_sum_exp = static_cast<double>(args.log_sum_exp[row]);
    z_loss += log_sum_exp * log_sum_exp;
  }
  loss = wide_block_sum(loss, shared);
  z_loss = wide_block_sum(z_loss, shared);
  count = wide_block_sum(count, shared);
  if (threadIdx.x != 0) return;
  args.state->loss_sum += loss;
  args.state->z_loss_sum += static_cast<double>(args.z_coefficient) * z_loss;
  args.state->supervised_tokens += static_cast<int64_t>(count);
}

}  // namespace
}  // namespace litespark::cuda
