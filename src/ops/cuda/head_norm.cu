// SPDX-License-Identifier: Apache-2.0
// RMSNorm of each query and key head of a packed tensor, both ways. A team of lanes owns a head's D elements.
#include <string>

#include "ops/cuda/check.h"
#include "ops/cuda/column_sum.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kHeadThreads = 256;
/// Accesses of a lane per head: D up to 32 lanes * 8 * 2 = 512 in vectors, up to 64 in single elements.
inline constexpr int kHeadSteps = 2;

template <class T>
struct HeadNormArgs {
  T* out;  // dqkv backward: dout on entry, the gradient on return
  float* rstd;
  const T* qkv;
  const float* q_weight;
  const float* k_weight;
  float* partials;  // backward only
  int64_t tokens;
  int heads;     // H
  int kv_heads;  // K
  int head_dim;  // D
  int team;      // lanes a head, forward only
  float eps;
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kHeadThreads) head_norm_forward_kernel(HeadNormArgs<T> args);
template <class T, int kWidth>
__global__ void __launch_bounds__(kHeadThreads) head_norm_backward_kernel(HeadNormArgs<T> args);

/// Smallest of 8, 16 and 32 lanes that hold a head of whole vectors in one access each; 32 otherwise.
constexpr int team_lanes(int head_dim) {
  if (head_dim % kVectorWidth != 0) return kWarpSize;
  return head_dim <= 8 * kVectorWidth ? 8 : head_dim <= 16 * kVectorWidth ? 16 : kWarpSize;
}

/// Whole vectors where D allows, else single elements; throws when a head is wider than a team.
bool is_wide_head(std::string_view op, int head_dim) {
  const bool is_wide = head_dim % kVectorWidth == 0;
  const int most = (is_wide ? kVectorWidth : 1) * kWarpSize * kHeadSteps;
  if (head_dim > most)
    throw InternalError(op, "head dimension not supported", head_dim, "at most " + std::to_string(most));
  return is_wide;
}

}  // namespace

void CudaBackend::run(const op::HeadNormForward<Tensor>& op) {
  if (op.qkv.num_elements() == 0) return;
  visit_float_dtype(op.kName, op.qkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const HeadNormArgs<T> args{.out = op.out.as<T>(),
                               .rstd = op.rstd.as<float>(),
                               .qkv = op.qkv.as<T>(),
                               .q_weight = op.q_weight.as<float>(),
                               .k_weight = op.k_weight.as<float>(),
                               .partials = nullptr,
                               .tokens = op.qkv.rows(),
                               .heads = op.num_heads,
                               .kv_heads = op.num_kv_heads,
                               .head_dim = op.head_dim,
                               .team = team_lanes(op.head_dim),
                               .eps = op.eps};
    const int64_t heads = args.tokens * (op.num_heads + 2 * op.num_kv_heads);
    const unsigned grid = grid_size(op.kName, ceil_div(heads, kHeadThreads / args.team));
    if (is_wide_head(op.kName, op.head_dim)) {
      head_norm_forward_kernel<T, kVectorWidth><<<grid, kHeadThreads, 0, context_.stream>>>(args);
    } else {
      head_norm_forward_kernel<T, 1><<<grid, kHeadThreads, 0, context_.stream>>>(args);
    }
  });
  check_launch(op.kName);
}

void CudaBackend::run(const op::HeadNormBackward<Tensor>& op) {
  const int64_t parts = ceil_div(op.qkv.rows(), op::kRmsNormRowsPerBlock);
  visit_float_dtype(op.kName, op.qkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const HeadNormArgs<T> args{.out = op.dqkv.as<T>(),
                               .rstd = op.rstd.as<float>(),
                               .qkv = op.qkv.as<T>(),
                               .q_weight = op.q_weight.as<float>(),
                               .k_weight = op.k_weight.as<float>(),
                               .partials = op.partials.as<float>(),
                               .tokens = op.qkv.rows(),
                               .heads = op.num_heads,
                               .kv_heads = op.num_kv_heads,
                               .head_dim = op.head_dim,
                               .team = kWarpSize,
                               .eps = 0};
    if (parts == 0) return;
    const unsigned grid = grid_size(op.kName, parts);
    const size_t shared_bytes = static_cast<size_t>(kHeadThreads / kWarpSize * 2 * op.head_dim) * sizeof(float);
    if (is_wide_head(op.kName, op.head_dim)) {
      head_norm_backward_kernel<T, kVectorWidth><<<grid, kHeadThreads, shared_bytes, context_.stream>>>(args);
    } else {
      head_norm_backward_kernel<T, 1><<<grid, kHeadThreads, shared_bytes, context_.stream>>>(args);
    }
  });
  check_launch(op.kName);
  for (const bool is_key : {false, true}) {
    launch_column_sum(ColumnSum{.op = op.kName,
                                .out = (is_key ? op.dk_weight : op.dq_weight).as<float>(),
                                .partials = op.partials.as<float>() + (is_key ? op.head_dim : 0),
                                .parts = parts,
                                .columns = op.head_dim,
                                .stride = 2 * op.head_dim,
                                .accumulate = op.accumulate},
                      context_.stream);
  }
}

namespace {

// A team of 8, 16 or 32 lanes a head, so that heads of 64 and 128 leave no lane idle. Traffic an element: qkv read, out
// written: 4 bytes in bf16.
template <class T, int kWidth>
__global__ void __launch_bounds__(kHeadThreads) head_norm_forward_kernel(HeadNormArgs<T> args) {
  const int team = args.team;
  const int lane = static_cast<int>(threadIdx.x) % team;
  const int64_t item = (static_cast<int64_t>(blockIdx.x) * kHeadThreads + threadIdx.x) / team;
  const int heads_total = args.heads + 2 * args.kv_heads;
  const int64_t token = item / heads_total;
  const int head = static_cast<int>(item % heads_total);
  const bool exists = token < args.tokens;
  const int64_t start = item * args.head_dim;
  float values[kHeadSteps][kWidth] = {};
  float square_sum = 0;
#pragma unroll
  for (int s = 0; s < kHeadSteps; ++s) {
    const int at = (lane + s * team) * kWidth;
    if (exists && at < args.head_dim) load_floats(args.qkv + start + at, values[s]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) square_sum += values[s][i] * values[s][i];
  }
  for (int distance = team / 2; distance > 0; distance /= 2) {
    square_sum += __shfl_xor_sync(kFullWarp, square_sum, distance);
  }
  if (!exists) return;
  const int normed = args.heads + args.kv_heads;
  const float* weight = head < args.heads ? args.q_weight : args.k_weight;
  const float rstd = 1.0f / sqrtf(square_sum / static_cast<float>(args.head_dim) + args.eps);
  if (head < normed && lane == 0) args.rstd[token * normed + head] = rstd;
#pragma unroll
  for (int s = 0; s < kHeadSteps; ++s) {
    const int at = (lane + s * team) * kWidth;
    if (at >= args.head_dim) break;
    if (head < normed) {
      float weights[kWidth];
      load_floats(weight + at, weights);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[s][i] *= rstd * weights[i];
    }
    store_floats(args.out + start + at, values[s]);
  }
}

template <int kWidth>
struct HeadWeights {
  float sums[kHeadSteps][kWidth] = {};
};

// One head: dx = rstd (w dy - x rstd^2 mean(w dy x)); its weight gradient dy x rstd goes to `dweight`.
template <class T, int kWidth>
__device__ void head_backward(const HeadNormArgs<T>& args, int64_t token, int head, HeadWeights<kWidth>& dweight) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t start = (token * (args.heads + 2 * args.kv_heads) + head) * args.head_dim;
  const float* weight = head < args.heads ? args.q_weight : args.k_weight;
  const float rstd = args.rstd[token * (args.heads + args.kv_heads) + head];
  float x[kHeadSteps][kWidth] = {};
  float dy[kHeadSteps][kWidth] = {};
  float dot = 0;
#pragma unroll
  for (int s = 0; s < kHeadSteps; ++s) {
    const int at = (lane + s * kWarpSize) * kWidth;
    if (at >= args.head_dim) break;
    load_floats(args.qkv + start + at, x[s]);
    load_floats(args.out + start + at, dy[s]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      dweight.sums[s][i] += dy[s][i] * x[s][i] * rstd;
      dy[s][i] *= weight[at + i];
      dot += dy[s][i] * x[s][i];
    }
  }
  const float coefficient = warp_sum(dot) / static_cast<float>(args.head_dim) * rstd * rstd;
#pragma unroll
  for (int s = 0; s < kHeadSteps; ++s) {
    const int at = (lane + s * kWarpSize) * kWidth;
    if (at >= args.head_dim) break;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) x[s][i] = rstd * (dy[s][i] - x[s][i] * coefficient);
    store_floats(args.out + start + at, x[s]);
  }
}

// A block owns 64 tokens; its 8 warps take their query and key heads in turn and keep both weight gradients in
// registers, which are added in warp order at the end. Traffic an element: qkv, dout read, dqkv written: 6 bytes in
// bf16.
template <class T, int kWidth>
__global__ void __launch_bounds__(kHeadThreads) head_norm_backward_kernel(HeadNormArgs<T> args) {
  extern __shared__ float shared[];  // [warps][2 D]
  constexpr int kWarps = kHeadThreads / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t first_token = static_cast<int64_t>(blockIdx.x) * op::kRmsNormRowsPerBlock;
  HeadWeights<kWidth> dq;
  HeadWeights<kWidth> dk;
  for (int t = 0; t < op::kRmsNormRowsPerBlock && first_token + t < args.tokens; ++t) {
    for (int head = warp; head < args.heads; head += kWarps) head_backward(args, first_token + t, head, dq);
    for (int head = warp; head < args.kv_heads; head += kWarps) {
      head_backward(args, first_token + t, args.heads + head, dk);
    }
  }
#pragma unroll
  for (int s = 0; s < kHeadSteps; ++s) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const int at = (lane + s * kWarpSize) * kWidth + i;
      if (at >= args.head_dim) break;
      shared[warp * 2 * args.head_dim + at] = dq.sums[s][i];
      shared[warp * 2 * args.head_dim + args.head_dim + at] = dk.sums[s][i];
    }
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < 2 * args.head_dim; c += kHeadThreads) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += shared[w * 2 * args.head_dim + c];
    args.partials[static_cast<int64_t>(blockIdx.x) * 2 * args.head_dim + c] = total;
  }
}

}  // namespace
}  // namespace litespark::cuda
