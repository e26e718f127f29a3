// SPDX-License-Identifier: Apache-2.0
// The optimizer phase up to the update: the gradients' square sum and the decision to step. Nothing here meets the
// host. AdamW stands in optimizer_adamw.cu.
#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kSquareThreads = 256;
inline constexpr int kTotalThreads = 1024;

template <class T>
struct SquareSumArgs {
  const T* gradient;
  double* partials;
  int64_t size;
};

template <class T>
__global__ void __launch_bounds__(kSquareThreads) square_sum_kernel(SquareSumArgs<T> args);
__global__ void __launch_bounds__(kTotalThreads)
    square_total_kernel(StepState* state, const double* partials, int64_t parts, double factor);
__global__ void step_decision_kernel(StepState* state, double beta1, double beta2);

}  // namespace

void CudaBackend::run(const op::GradientSquareSum<Tensor>& op) {
  const int64_t size = op.gradient.num_elements();
  const int64_t parts = ceil_div(size, op::kSquareSumBlock);
  if (parts == 0) return;
  auto* partials = op.partials.as<double>();
  visit_float_dtype(op.kName, op.gradient.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SquareSumArgs<T> args{.gradient = op.gradient.as<T>(), .partials = partials, .size = size};
    square_sum_kernel<<<grid_size(op.kName, parts), kSquareThreads, 0, context_.stream>>>(args);
  });
  auto* state = static_cast<StepState*>(op.state.data);
  square_total_kernel<<<1, kTotalThreads, 0, context_.stream>>>(state, partials, parts, op.factor);
  check_launch(op.kName);
}

void CudaBackend::run(const op::StepDecision<Tensor>& op) {
  step_decision_kernel<<<1, 1, 0, context_.stream>>>(static_cast<StepState*>(op.state.data), op.beta1, op.beta2);
  check_launch(op.kName);
}

namespace {

// A block sums kSquareSumBlock elements in double: 4 bytes read an element, 2 in bf16. Threads take vectors of 4 in
// turn, four of them under way at a time.
template <class T>
__global__ void __launch_bounds__(kSquareThreads) square_sum_kernel(SquareSumArgs<T> args) {
  __shared__ double shared[kSquareThreads / kWarpSize];
  constexpr int kWidth = 4;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * op::kSquareSumBlock;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x * kWidth; i < op::kSquareSumBlock; i += kSquareThreads * kWidth) {
    const int64_t at = first + i;
    if (at + kWidth <= args.size) {
      const Pack<T, kWidth> pack = load_pack<kWidth>(args.gradient + at);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum += static_cast<double>(pack[k]) * static_cast<double>(pack[k]);
    } else {
#pragma unroll 1
      for (int64_t k = at; k < args.size; ++k) {
        const double value = static_cast<double>(as_float(args.gradient[k]));
        sum += value * value;
      }
    }
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) args.partials[blockIdx.x] = sum;
}

// Thread t adds parts t, t + 1024, ... in order, then a fixed tree: the order depends on the size alone.
__global__ void __launch_bounds__(kTotalThreads)
    square_total_kernel(StepState* state, const double* partials, int64_t parts, double factor) {
  __shared__ double shared[kTotalThreads / kWarpSize];
  double sum = 0;
#pragma unroll 8
  for (int64_t part = threadIdx.x; part < parts; part += kTotalThreads) sum += partials[part];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) state->gradient_square_sum += factor * sum;
}

__device__ bool must_skip(const StepState& state, double norm) {
  if (state.supervised_tokens <= 0 || state.bad_tokens > 0) return true;
  if (!isfinite(state.loss_sum) || !isfinite(state.z_loss_sum) || !isfinite(norm)) return true;
  return state.spike_limit > 0 && norm > static_cast<double>(state.spike_limit);
}

// One thread: some 200 bytes of state.
__global__ void step_decision_kernel(StepState* state_pointer, double beta1, double beta2) {
  StepState& state = *state_pointer;
  const double tokens = state.supervised_tokens > 1 ? static_cast<double>(state.supervised_tokens) : 1.0;
  const double norm = sqrt(state.gradient_square_sum) / tokens;
  state.gradient_norm = static_cast<float>(norm);
  state.skipped = must_skip(state, norm) ? 1 : 0;
  if (state.skipped != 0) {
    state.gradient_scale = 0;
    ++state.skipped_steps;
    return;
  }
  const double clip = static_cast<double>(state.clip_norm);
  const double factor = clip > 0 ? fmin(1.0, clip / (norm + 1e-6)) : 1.0;
  state.gradient_scale = static_cast<float>(factor / tokens);
  ++state.optimizer_steps;
  const double step = static_cast<double>(state.optimizer_steps);
  state.bias_correction1 = static_cast<float>(1.0 - pow(beta1, step));
  state.bias_correction2 = static_cast<float>(1.0 - pow(beta2, step));
}

}  // namespace
}  // namespace litespark::cuda
