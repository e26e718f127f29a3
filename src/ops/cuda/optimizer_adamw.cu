// SPDX-License-Identifier: Apache-2.0
// AdamW in one pass over the parameters, for every form that the weights can have (op::WeightForm).
#include "core/bf16_rounding.h"
#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kAdamThreads = 256;
/// Elements a thread: one block of rounding noise.
inline constexpr int kAdamWidth = 4;

template <class Moment, class Gradient>
struct AdamWArgs {
  float* master;
  Moment* first_moment;
  Moment* second_moment;
  bf16* weight;  // may be nullptr beside a master
  uint16_t* remainder;
  const Gradient* gradient;
  const StepState* state;
  float* abs_max;  // may be nullptr
  int64_t size;
  int64_t first_element;
  uint64_t seed;
  float beta1;
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float eps;
  float gradient_factor;
  double weight_decay;
};

template <op::WeightForm kForm, class Moment, class Gradient>
__global__ void __launch_bounds__(kAdamThreads) adamw_kernel(AdamWArgs<Moment, Gradient> args);

template <class Moment, class Gradient>
void launch_adamw(const op::AdamW<Tensor>& op, cudaStream_t stream) {
  const AdamWArgs<Moment, Gradient> args{.master = pointer_or_null<float>(op.master),
                                         .first_moment = op.first_moment.as<Moment>(),
                                         .second_moment = op.second_moment.as<Moment>(),
                                         .weight = pointer_or_null<bf16>(op.weight),
                                         .remainder = pointer_or_null<uint16_t>(op.remainder),
                                         .gradient = op.gradient.as<Gradient>(),
                                         .state = static_cast<const StepState*>(op.state.data),
                                         .abs_max = pointer_or_null<float>(op.abs_max),
                                         .size = op.gradient.num_elements(),
                                         .first_element = op.first_element,
                                         .seed = op.seed,
                                         .beta1 = static_cast<float>(op.beta1),
                                         .beta2 = static_cast<float>(op.beta2),
                                         .one_minus_beta1 = static_cast<float>(1 - op.beta1),
                                         .one_minus_beta2 = static_cast<float>(1 - op.beta2),
                                         .eps = static_cast<float>(op.eps),
                                         .gradient_factor = static_cast<float>(op.gradient_factor),
                                         .weight_decay = op.weight_decay};
  if (args.size == 0) return;
  const unsigned grid = grid_size(op.kName, ceil_div(args.size, kAdamThreads * kAdamWidth));
  switch (op.form()) {
    case op::WeightForm::kMaster: adamw_kernel<op::WeightForm::kMaster><<<grid, kAdamThreads, 0, stream>>>(args); break;
    case op::WeightForm::kSplit: adamw_kernel<op::WeightForm::kSplit><<<grid, kAdamThreads, 0, stream>>>(args); break;
    case op::WeightForm::kStochastic:
      adamw_kernel<op::WeightForm::kStochastic><<<grid, kAdamThreads, 0, stream>>>(args);
      break;
  }
  check_launch(op.kName);
}

}  // namespace

void CudaBackend::run(const op::AdamW<Tensor>& op) {
  visit_float_dtype(op.kName, op.first_moment.dtype, [&](auto moment) {
    visit_float_dtype(op.kName, op.gradient.dtype, [&](auto gradient) {
      launch_adamw<typename decltype(moment)::type, typename decltype(gradient)::type>(op, context_.stream);
    });
  });
}

namespace {

struct AdamWScalars {
  float gradient_scale;
  float learning_rate;
  float decay;
  float bias_correction1;
  float bias_correction2;
};

/// Every rounding is written down: a compiler that contracts one form's products and not another's would break the
/// promise of equal bits.
template <class Args>
__device__ void adamw_element(const Args& args, const AdamWScalars& scalars, float gradient, float& master,
                              float& first, float& second) {
  const float g = __fmul_rn(gradient, scalars.gradient_scale);
  first = __fmaf_rn(args.beta1, first, __fmul_rn(args.one_minus_beta1, g));
  second = __fmaf_rn(args.beta2, second, __fmul_rn(__fmul_rn(args.one_minus_beta2, g), g));
  const float denominator = __fadd_rn(__fsqrt_rn(__fdiv_rn(second, scalars.bias_correction2)), args.eps);
  const float step = __fmul_rn(scalars.learning_rate, __fdiv_rn(first, scalars.bias_correction1));
  master = __fmaf_rn(master, scalars.decay, -__fdiv_rn(step, denominator));
}

/// Where a thread's elements lie; every stream passes once, so whole quads are marked evict-first. Whole or not is a
/// type, and loops over the rest are unrolled under conditions: an array indexed at run time would live in local memory
/// and halve the speed.
template <bool kWhole>
struct Quad {
  int64_t at;
  int count = kAdamWidth;  // 1 to 3 when not whole

  static constexpr bool is_whole() { return kWhole; }
};

__device__ void load(const auto& quad, const float* source, float (&values)[kAdamWidth]) {
  if constexpr (std::remove_cvref_t<decltype(quad)>::is_whole()) {
    const float4 four = __ldcs(reinterpret_cast<const float4*>(source + quad.at));
    values[0] = four.x;
    values[1] = four.y;
    values[2] = four.z;
    values[3] = four.w;
  } else {
#pragma unroll
    for (int k = 0; k < kAdamWidth; ++k) {
      if (k < quad.count) values[k] = source[quad.at + k];
    }
  }
}

__device__ void store(const auto& quad, float* destination, const float (&values)[kAdamWidth]) {
  if constexpr (std::remove_cvref_t<decltype(quad)>::is_whole()) {
    __stcs(reinterpret_cast<float4*>(destination + quad.at), make_float4(values[0], values[1], values[2], values[3]));
  } else {
#pragma unroll
    for (int k = 0; k < kAdamWidth; ++k) {
      if (k < quad.count) destination[quad.at + k] = values[k];
    }
  }
}

__device__ void load_halves(const auto& quad, const uint16_t* source, uint16_t (&halves)[kAdamWidth]) {
  if constexpr (std::remove_cvref_t<decltype(quad)>::is_whole()) {
    const uint2 words = __ldcs(reinterpret_cast<const uint2*>(source + quad.at));
    halves[0] = static_cast<uint16_t>(words.x);
    halves[1] = static_cast<uint16_t>(words.x >> 16);
    halves[2] = static_cast<uint16_t>(words.y);
    halves[3] = static_cast<uint16_t>(words.y >> 16);
  } else {
#pragma unroll
    for (int k = 0; k < kAdamWidth; ++k) {
      if (k < quad.count) halves[k] = source[quad.at + k];
    }
  }
}

__device__ void store_halves(const auto& quad, uint16_t* destination, const uint16_t (&halves)[kAdamWidth]) {
  if constexpr (std::remove_cvref_t<decltype(quad)>::is_whole()) {
    const auto pair = [&](int k) { return uint32_t{halves[k]} | (uint32_t{halves[k + 1]} << 16); };
    __stcs(reinterpret_cast<uint2*>(destination + quad.at), make_uint2(pair(0), pair(2)));
  } else {
#pragma unroll
    for (int k = 0; k < kAdamWidth; ++k) {
      if (k < quad.count) destination[quad.at + k] = halves[k];
    }
  }
}

__device__ void load(const auto& quad, const bf16* source, float (&values)[kAdamWidth]) {
  uint16_t halves[kAdamWidth] = {};
  load_halves(quad, reinterpret_cast<const uint16_t*>(source), halves);
#pragma unroll
  for (int k = 0; k < kAdamWidth; ++k) values[k] = as_float(bf16{halves[k]});
}

/// The largest magnitude among the halves of a quad, read as bf16.
__device__ float largest_half(const auto& quad, const uint16_t (&halves)[kAdamWidth]) {
  float largest = 0;
#pragma unroll
  for (int k = 0; k < kAdamWidth; ++k) {
    if (k < quad.count) largest = larger_magnitude(largest, as_float(bf16{halves[k]}));
  }
  return largest;
}

/// Returns the largest magnitude that it wrote.
__device__ float store_stochastic(const auto& quad, bf16* destination, const float (&values)[kAdamWidth],
                                  const std::array<uint32_t, 4>& noise, int shift) {
  uint16_t halves[kAdamWidth];
#pragma unroll
  for (int k = 0; k < kAdamWidth; ++k) {
    halves[k] = to_bf16_stochastic(values[k], static_cast<uint16_t>(noise[static_cast<size_t>(k)] >> shift)).bits;
  }
  store_halves(quad, reinterpret_cast<uint16_t*>(destination), halves);
  return largest_half(quad, halves);
}

template <op::WeightForm kForm, class Args>
__device__ void load_weights(const Args& args, const auto& quad, float (&values)[kAdamWidth]) {
  if constexpr (kForm == op::WeightForm::kMaster) {
    load(quad, args.master, values);
  } else if constexpr (kForm == op::WeightForm::kStochastic) {
    load(quad, args.weight, values);
  } else {
    uint16_t weight[kAdamWidth] = {};
    uint16_t remainder[kAdamWidth] = {};
    load_halves(quad, reinterpret_cast<const uint16_t*>(args.weight), weight);
    load_halves(quad, args.remainder, remainder);
#pragma unroll
    for (int k = 0; k < kAdamWidth; ++k) values[k] = join_float(bf16{weight[k]}, remainder[k]);
  }
}

/// Returns the largest magnitude of the weights that it wrote, or of the
/// masters without any.
template <op::WeightForm kForm, class Args>
__device__ float store_weights(const Args& args, const auto& quad, const float (&values)[kAdamWidth]) {
  auto* weights = reinterpret_cast<uint16_t*>(args.weight);
  if constexpr (kForm == op::WeightForm::kStochastic) {
    const auto block = static_cast<uint64_t>(args.first_element + quad.at) / kAdamWidth;
    return store_stochastic(quad, args.weight, values,
                            rounding_noise(args.seed, args.state->rng_counter, NoiseUse::kWeights, block), 0);
  } else {
    if constexpr (kForm == op::WeightForm::kMaster) store(quad, args.master, values);
    if (weights == nullptr) {
      float largest = 0;
#pragma unroll
      for (int k = 0; k < kAdamWidth; ++k) {
        if (k < quad.count) largest = larger_magnitude(largest, values[k]);
      }
      return largest;
    }
    uint16_t weight[kAdamWidth];
    uint16_t remainder[kAdamWidth];
#pragma unroll
    for (int k = 0; k < kAdamWidth; ++k) {
      const SplitFloat split = split_float(values[k]);
      weight[k] = split.weight.bits;
      remainder[k] = split.remainder;
    }
    store_halves(quad, weights, weight);
    if constexpr (kForm == op::WeightForm::kSplit) store_halves(quad, args.remainder, remainder);
    return largest_half(quad, weight);
  }
}

template <class Moment, class Gradient>
__device__ void store_moments(const AdamWArgs<Moment, Gradient>& args, const auto& quad,
                              const float (&first)[kAdamWidth], const float (&second)[kAdamWidth]) {
  if constexpr (std::is_same_v<Moment, float>) {
    store(quad, args.first_moment, first);
    store(quad, args.second_moment, second);
  } else {
    const auto block = static_cast<uint64_t>(args.first_element + quad.at) / kAdamWidth;
    const auto noise = rounding_noise(args.seed, args.state->rng_counter, NoiseUse::kMoments, block);
    store_stochastic(quad, args.first_moment, first, noise, 0);
    store_stochastic(quad, args.second_moment, second, noise, 16);
  }
}

/// Returns what store_weights does.
template <op::WeightForm kForm, class Args>
__device__ float update(const Args& args, const auto& quad) {
  const AdamWScalars scalars{
      .gradient_scale = args.state->gradient_scale * args.gradient_factor,
      .learning_rate = args.state->learning_rate,
      .decay = static_cast<float>(1.0 - static_cast<double>(args.state->learning_rate) * args.weight_decay),
      .bias_correction1 = args.state->bias_correction1,
      .bias_correction2 = args.state->bias_correction2};
  float gradient[kAdamWidth] = {};
  float weight[kAdamWidth] = {};
  float first[kAdamWidth] = {};
  float second[kAdamWidth] = {};
  load(quad, args.gradient, gradient);
  load_weights<kForm>(args, quad, weight);
  load(quad, args.first_moment, first);
  load(quad, args.second_moment, second);
#pragma unroll
  for (int k = 0; k < kAdamWidth; ++k) {
    adamw_element(args, scalars, gradient[k], weight[k], first[k], second[k]);
  }
  store_moments(args, quad, first, second);
  return store_weights<kForm>(args, quad, weight);
}

// Four parameters a thread. Traffic a parameter: gradient 4 (bf16: 2), weights read and written 8 + 2 (split: 4 + 4,
// stochastic: 2 + 2), moments read and written 16 (bf16: 8): 30 bytes at most, 14 at least. Exact divisions and roots,
// and ten Philox rounds for four elements: the arithmetic hides under the traffic.
template <op::WeightForm kForm, class Moment, class Gradient>
__global__ void __launch_bounds__(kAdamThreads) adamw_kernel(AdamWArgs<Moment, Gradient> args) {
  if (args.state->skipped != 0) return;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kAdamThreads + threadIdx.x) * kAdamWidth;
  float largest = 0;
  if (at + kAdamWidth <= args.size) {
    largest = update<kForm>(args, Quad<true>{.at = at});
  } else if (at < args.size) {
    largest = update<kForm>(args, Quad<false>{.at = at, .count = static_cast<int>(args.size - at)});
  }
  if (args.abs_max != nullptr) raise_abs_max(args.abs_max, largest);
}

}  // namespace
}  // namespace litespark::cuda
