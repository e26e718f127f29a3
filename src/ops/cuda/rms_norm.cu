// SPDX-License-Identifier: Apache-2.0
// RMSNorm with the residual addition before it, forward. The backward pass is in rms_norm_backward.cu.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/heuristics/rows.h"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

template <class R, class T>
struct ForwardArgs {
  T* y;
  float* rstd;
  R* sum;  // nullptr without delta
  const R* x;
  const T* delta;  // may be nullptr
  const float* weight;
  float* abs_max;  // raised to the largest |y|; may be nullptr
  int64_t rows;
  int columns;
  float eps;
};

template <class R, class T>
__global__ void __launch_bounds__(kMaxTeamThreads) rms_norm_forward_kernel(ForwardArgs<R, T> args);
template <class R, class T>
__global__ void __launch_bounds__(kMaxTeamThreads) rms_norm_forward_any_kernel(ForwardArgs<R, T> args);

}  // namespace

void CudaBackend::run(const op::RmsNormForward<Tensor>& op) {
  if (op.x.num_elements() == 0) return;
  if (op.x.num_elements() == 0) return;
  visit_residual_compute(op.kName, op.x.dtype, op.y.dtype, [&](auto residual, auto compute) {
    using R = typename decltype(residual)::type;
    using T = typename decltype(compute)::type;
    const ForwardArgs<R, T> args{.y = op.y.as<T>(),
                                 .rstd = op.rstd.as<float>(),
                                 .sum = pointer_or_null<R>(op.sum),
                                 .x = op.x.as<R>(),
                                 .delta = pointer_or_null<T>(op.delta),
                                 .weight = op.weight.as<float>(),
                                 .abs_max = pointer_or_null<float>(op.abs_max),
                                 .rows = op.x.rows(),
                                 .columns = static_cast<int>(op.x.columns()),
                                 .eps = op.eps};
    if (row_is_held(args.columns)) {
      const RowTeam team = held_row_team(args.columns);
      const dim3 block(static_cast<unsigned>(team.threads), static_cast<unsigned>(team.rows));
      const unsigned grid = grid_size(op.kName, ceil_div(args.rows, team.rows));
      rms_norm_forward_kernel<R, T><<<grid, block, 0, context_.stream>>>(args);
    } else {
      rms_norm_forward_any_kernel<R, T><<<grid_size(op.kName, args.rows), kMaxTeamThreads, 0, context_.stream>>>(args);
    }
  });
  check_launch(op.kName);
}

namespace {

__device__ float reciprocal_norm(float square_sum, int columns, float eps) {
  return 1.0f / sqrtf(square_sum / static_cast<float>(columns) + eps);
}

// A row belongs to blockDim.x threads, which keep it in registers between the sum of squares and the output.
// Traffic a column: x, delta read, sum, y written: 8 bytes in bf16, 12 with an f32 residual stream.
template <class R, class T>
__global__ void __launch_bounds__(kMaxTeamThreads) rms_norm_forward_kernel(ForwardArgs<R, T> args) {
  __shared__ float shared[kMaxTeamThreads / kWarpSize];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= args.rows) return;
  const int vectors = args.columns / kVectorWidth;
  const int64_t start = row * args.columns;
  Pack<R, kVectorWidth> held[kHeldVectors];
  Pack<T, kVectorWidth> delta[kHeldVectors];
#pragma unroll
  for (int v = 0; v < kHeldVectors; ++v) {
    const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (vector >= vectors) break;
    held[v] = load_pack<kVectorWidth>(args.x + start + vector * kVectorWidth);
    if (args.delta != nullptr) delta[v] = load_pack<kVectorWidth>(args.delta + start + vector * kVectorWidth);
  }
  float square_sum = 0;
#pragma unroll
  for (int v = 0; v < kHeldVectors; ++v) {
    const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (vector >= vectors) break;
    if (args.delta != nullptr) {
#pragma unroll
      for (int i = 0; i < kVectorWidth; ++i) held[v].elements[i] = from_float<R>(held[v][i] + delta[v][i]);
      *reinterpret_cast<Pack<R, kVectorWidth>*>(args.sum + start + vector * kVectorWidth) = held[v];
    }
#pragma unroll
    for (int i = 0; i < kVectorWidth; ++i) square_sum += held[v][i] * held[v][i];
  }
  square_sum = blockDim.x == kWarpSize ? warp_sum(square_sum) : block_sum(square_sum, shared);
  const float rstd = reciprocal_norm(square_sum, args.columns, args.eps);
  if (threadIdx.x == 0) args.rstd[row] = rstd;
  float largest = 0;
#pragma unroll
  for (int v = 0; v < kHeldVectors; ++v) {
    const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (vector >= vectors) break;
    keep_packed(held[v]);
    float values[kVectorWidth];
    load_floats(args.weight + vector * kVectorWidth, values);
#pragma unroll
    for (int i = 0; i < kVectorWidth; ++i) values[i] *= held[v][i] * rstd;
    largest = larger_magnitude(largest, values);
    store_floats(args.y + start + vector * kVectorWidth, values);
  }
  raise_abs_max_of<T>(args.abs_max, largest);
}

// Any number of columns: a block a row, single elements, the second pass reads the row again.
template <class R, class T>
__global__ void __launch_bounds__(kMaxTeamThreads) rms_norm_forward_any_kernel(ForwardArgs<R, T> args) {
  __shared__ float shared[kMaxTeamThreads / kWarpSize];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * args.columns;
  float square_sum = 0;
  for (int c = static_cast<int>(threadIdx.x); c < args.columns; c += static_cast<int>(blockDim.x)) {
    float value = as_float(args.x[start + c]);
    if (args.delta != nullptr) {
      value = rounded<R>(value + as_float(args.delta[start + c]));
      args.sum[start + c] = from_float<R>(value);
    }
    square_sum += value * value;
  }
  const float rstd = reciprocal_norm(block_sum(square_sum, shared), args.columns, args.eps);
  if (threadIdx.x == 0) args.rstd[blockIdx.x] = rstd;
  const R* summed = args.delta != nullptr ? args.sum : args.x;
  float largest = 0;
  for (int c = static_cast<int>(threadIdx.x); c < args.columns; c += static_cast<int>(blockDim.x)) {
    const float value = as_float(summed[start + c]) * rstd * args.weight[c];
    largest = larger_magnitude(largest, value);
    args.y[start + c] = from_float<T>(value);
  }
  raise_abs_max_of<T>(args.abs_max, largest);
}

}  // namespace
}  // namespace litespark::cuda
