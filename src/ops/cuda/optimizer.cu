// SPDX-License-Identifier: Apache-2.0
// The optimizer phase: the gradients' square sum, the decision to step, AdamW. Nothing here meets the host.
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
inline constexpr int kAdamThreads = 256;
inline constexpr int kAdamWidth = 4;

struct SquareSumArgs {
  const float* gradient;
  double* partials;
  int64_t size;
};

struct AdamWArgs {
  float* master;
  float* first_moment;
  float* second_moment;
  bf16* weight;  // may be nullptr
  const float* gradient;
  const StepState* state;
  int64_t size;
  float beta1;
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float eps;
  double weight_decay;
};

__global__ void __launch_bounds__(kSquareThreads) square_sum_kernel(SquareSumArgs args);
__global__ void __launch_bounds__(kTotalThreads)
    square_total_kernel(StepState* state, const double* partials, int64_t parts);
__global__ void step_decision_kernel(StepState* state, double beta1, double beta2);
__global__ void __launch_bounds__(kAdamThreads) adamw_kernel(AdamWArgs args);

}  // namespace

void CudaBackend::run(const op::GradientSquareSum<Tensor>& op) {
  const SquareSumArgs args{
      .gradient = op.gradient.as<float>(), .partials = op.partials.as<double>(), .size = op.gradient.num_elements()};
  const int64_t parts = ceil_div(args.size, op::kSquareSumBlock);
  if (parts == 0) return;
  square_sum_kernel<<<grid_size(op.kName, parts), kSquareThreads, 0, context_.stream>>>(args);
  auto* state = static_cast<StepState*>(op.state.data);
  square_total_kernel<<<1, kTotalThreads, 0, context_.stream>>>(state, args.partials, parts);
  check_launch(op.kName);
}

void CudaBackend::run(const op::StepDecision<Tensor>& op) {
  step_decision_kernel<<<1, 1, 0, context_.stream>>>(static_cast<StepState*>(op.state.data), op.beta1, op.beta2);
  check_launch(op.kName);
}

void CudaBackend::run(const op::AdamW<Tensor>& op) {
  const AdamWArgs args{.master = op.master.as<float>(),
                       .first_moment = op.first_moment.as<float>(),
                       .second_moment = op.second_moment.as<float>(),
                       .weight = pointer_or_null<bf16>(op.weight),
                       .gradient = op.gradient.as<float>(),
                       .state = static_cast<const StepState*>(op.state.data),
                       .size = op.master.num_elements(),
                       .beta1 = static_cast<float>(op.beta1),
                       .beta2 = static_cast<float>(op.beta2),
                       .one_minus_beta1 = static_cast<float>(1 - op.beta1),
                       .one_minus_beta2 = static_cast<float>(1 - op.beta2),
                       .eps = static_cast<float>(op.eps),
                       .weight_decay = op.weight_decay};
  if (args.size == 0) return;
  const int64_t blocks = ceil_div(args.size, kAdamThreads * kAdamWidth);
  adamw_kernel<<<grid_size(op.kName, blocks), kAdamThreads, 0, context_.stream>>>(args);
  check_launch(op.kName);
}

namespace {

// A block sums kSquareSumBlock elements in double: 4 bytes read an element. Threads take vectors of 4 in turn, four
// of them under way at a time.
__global__ void __launch_bounds__(kSquareThreads) square_sum_kernel(SquareSumArgs args) {
  __shared__ double shared[kSquareThreads / kWarpSize];
  constexpr int kWidth = 4;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * op::kSquareSumBlock;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x * kWidth; i < op::kSquareSumBlock; i += kSquareThreads * kWidth) {
    const int64_t at = first + i;
    if (at + kWidth <= args.size) {
      const Pack<float, kWidth> pack = load_pack<kWidth>(args.gradient + at);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum += static_cast<double>(pack[k]) * static_cast<double>(pack[k]);
    } else {
#pragma unroll 1
      for (int64_t k = at; k < args.size; ++k) {
        sum += static_cast<double>(args.gradient[k]) * static_cast<double>(args.gradient[k]);
      }
    }
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) args.partials[blockIdx.x] = sum;
}

// Thread t adds parts t, t + 1024, ... in order, then a fixed tree: the order depends on the size alone.
__global__ void __launch_bounds__(kTotalThreads)
    square_total_kernel(StepState* state, const double* partials, int64_t parts) {
  __shared__ double shared[kTotalThreads / kWarpSize];
  double sum = 0;
#pragma unroll 8
  for (int64_t part = threadIdx.x; part < parts; part += kTotalThreads) sum += partials[part];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) state->gradient_square_sum += sum;
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

struct AdamWScalars {
  float gradient_scale;
  float learning_rate;
  float decay;
  float bias_correction1;
  float bias_correction2;
};

__device__ void adamw_element(const AdamWArgs& args, const AdamWScalars& scalars, float gradient, float& master,
                              float& first, float& second) {
  const float g = gradient * scalars.gradient_scale;
  first = args.beta1 * first + args.one_minus_beta1 * g;
  second = args.beta2 * second + args.one_minus_beta2 * g * g;
  const float denominator = sqrtf(second / scalars.bias_correction2) + args.eps;
  master = master * scalars.decay - scalars.learning_rate * (first / scalars.bias_correction1) / denominator;
}

// Four parameters a thread. Traffic a parameter: gradient, master, two moments read (16 bytes), master and moments
// written (12), the bf16 copy written (2). Every stream passes once, so they are marked evict-first. Exact divisions
// and roots: the arithmetic hides under 30 bytes a parameter.
__global__ void __launch_bounds__(kAdamThreads) adamw_kernel(AdamWArgs args) {
  if (args.state->skipped != 0) return;
  const AdamWScalars scalars{
      .gradient_scale = args.state->gradient_scale,
      .learning_rate = args.state->learning_rate,
      .decay = static_cast<float>(1.0 - static_cast<double>(args.state->learning_rate) * args.weight_decay),
      .bias_correction1 = args.state->bias_correction1,
      .bias_correction2 = args.state->bias_correction2};
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kAdamThreads + threadIdx.x) * kAdamWidth;
  if (at + kAdamWidth <= args.size) {
    const float4 g = __ldcs(reinterpret_cast<const float4*>(args.gradient + at));
    float4 w = __ldcs(reinterpret_cast<const float4*>(args.master + at));
    float4 m = __ldcs(reinterpret_cast<const float4*>(args.first_moment + at));
    float4 v = __ldcs(reinterpret_cast<const float4*>(args.second_moment + at));
    adamw_element(args, scalars, g.x, w.x, m.x, v.x);
    adamw_element(args, scalars, g.y, w.y, m.y, v.y);
    adamw_element(args, scalars, g.z, w.z, m.z, v.z);
    adamw_element(args, scalars, g.w, w.w, m.w, v.w);
    __stcs(reinterpret_cast<float4*>(args.master + at), w);
    __stcs(reinterpret_cast<float4*>(args.first_moment + at), m);
    __stcs(reinterpret_cast<float4*>(args.second_moment + at), v);
    if (args.weight != nullptr) {
      __stcs(reinterpret_cast<uint2*>(args.weight + at), make_uint2(pack_bf16(w.x, w.y), pack_bf16(w.z, w.w)));
    }
    return;
  }
#pragma unroll 1
  for (int64_t i = at; i < args.size; ++i) {
    adamw_element(args, scalars, args.gradient[i], args.master[i], args.first_moment[i], args.second_moment[i]);
    if (args.weight != nullptr) args.weight[i] = from_float<bf16>(args.master[i]);
  }
}

}  // namespace
}  // namespace litespark::cuda
