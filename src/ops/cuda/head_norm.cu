// SPDX-License-Identifier: Apache-2.0
// RMSNorm of each query and key head of a packed tensor, both ways. A team of lanes owns a head's D elements.
#include <string>
#include <type_traits>

#include "ops/cuda/check.h"
#include "ops/cuda/column_sum.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kHeadThreads = 256;
inline constexpr int kBackwardThreads = 512;

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
  float eps;
};

/// Heads that a team has under way: with one access a head, 16 bytes a lane are too little to hide memory behind.
template <int kSteps>
inline constexpr int kHeadBatch = kSteps == 1 ? 4 : 1;

template <class T, int kWidth, int kSteps>
__global__ void __launch_bounds__(kHeadThreads) head_norm_forward_kernel(HeadNormArgs<T> args, int team);
template <class T, int kWidth, int kSteps>
__global__ void __launch_bounds__(kBackwardThreads) head_norm_backward_kernel(HeadNormArgs<T> args, int team);

template <int kValue>
using Number = std::integral_constant<int, kValue>;

/// Calls body(width, steps, team) with the elements of an access, the accesses of a lane, and the lanes, 8, 16 or 32,
/// that own a head. Throws when a head is wider than a team.
template <class Body>
void visit_head_shape(std::string_view op, int head_dim, Body&& body) {
  const bool is_wide = head_dim % kVectorWidth == 0;
  const int accesses = is_wide ? head_dim / kVectorWidth : head_dim;
  if (accesses > 2 * kWarpSize) {
    throw InternalError(op, "head dimension not supported", head_dim,
                        "at most " + std::to_string((is_wide ? kVectorWidth : 1) * 2 * kWarpSize));
  }
  const int team = !is_wide || accesses > 16 ? kWarpSize : accesses > 8 ? 16 : 8;
  if (is_wide && accesses <= kWarpSize) return body(Number<kVectorWidth>{}, Number<1>{}, team);
  if (is_wide) return body(Number<kVectorWidth>{}, Number<2>{}, team);
  return body(Number<1>{}, Number<2>{}, team);
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
                               .eps = op.eps};
    visit_head_shape(op.kName, op.head_dim, [&](auto width, auto steps, int team) {
      const unsigned heads = grid_size(op.kName, args.tokens * (op.num_heads + 2 * op.num_kv_heads));
      const int block_heads = kHeadThreads / team * kHeadBatch<steps>;
      head_norm_forward_kernel<T, width, steps>
          <<<grid_size(op.kName, ceil_div(heads, block_heads)), kHeadThreads, 0, context_.stream>>>(args, team);
    });
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
                               .eps = 0};
    if (parts == 0) return;
    visit_head_shape(op.kName, op.head_dim, [&](auto width, auto steps, int team) {
      // Sums of every warp must fit the 48 KiB that a block may have without asking.
      const int threads = op.head_dim > 256 ? kBackwardThreads / 2 : kBackwardThreads;
      const size_t shared_bytes = static_cast<size_t>(threads / kWarpSize * 2 * op.head_dim) * sizeof(float);
      head_norm_backward_kernel<T, width, steps>
          <<<grid_size(op.kName, parts), threads, shared_bytes, context_.stream>>>(args, team);
    });
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

/// Sum over a team of 8, 16 or 32 neighbouring lanes. All lanes of the warp must call it.
__device__ inline float team_sum(float value, int team) {
  for (int distance = team / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kFullWarp, value, distance);
  return value;
}

// A team a head, so that heads of 64 and 128 leave no lane idle. Traffic an element: qkv read, out written: 4 bytes in
// bf16.
template <class T, int kWidth, int kSteps>
__global__ void __launch_bounds__(kHeadThreads) head_norm_forward_kernel(HeadNormArgs<T> args, int team) {
  constexpr int kBatch = kHeadBatch<kSteps>;
  const int lane = static_cast<int>(threadIdx.x) % team;
  const auto teams = static_cast<unsigned>(kHeadThreads / team);
  const auto heads_total = static_cast<unsigned>(args.heads + 2 * args.kv_heads);
  const auto items = static_cast<unsigned>(args.tokens) * heads_total;
  const unsigned first = blockIdx.x * kBatch * teams + threadIdx.x / static_cast<unsigned>(team);
  const auto normed = static_cast<unsigned>(args.heads + args.kv_heads);
  Pack<T, kWidth> packs[kBatch][kSteps];
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const unsigned item = first + static_cast<unsigned>(b) * teams;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = (lane + s * team) * kWidth;
      packs[b][s] = {};
      if (item < items && at < args.head_dim) {
        packs[b][s] = load_pack<kWidth>(args.qkv + int64_t{item} * args.head_dim + at);
      }
    }
  }
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const unsigned item = first + static_cast<unsigned>(b) * teams;
    float square_sum = 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) square_sum += packs[b][s][i] * packs[b][s][i];
    }
    square_sum = team_sum(square_sum, team);
    if (item >= items) continue;
    const unsigned token = item / heads_total;
    const unsigned head = item % heads_total;
    const float* weight = head < static_cast<unsigned>(args.heads) ? args.q_weight : args.k_weight;
    const float rstd = 1.0f / sqrtf(square_sum / static_cast<float>(args.head_dim) + args.eps);
    if (head < normed && lane == 0) args.rstd[int64_t{token} * normed + head] = rstd;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = (lane + s * team) * kWidth;
      if (at >= args.head_dim) break;
      float weights[kWidth];
      float values[kWidth];
      load_floats(weight + at, weights);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        values[i] = head < normed ? packs[b][s][i] * (rstd * weights[i]) : packs[b][s][i];
      }
      store_floats(args.out + int64_t{item} * args.head_dim + at, values);
    }
  }
}

/// The query heads or the key heads of a packed row.
struct HeadRange {
  int first;
  int count;
  int total;   // heads of a packed row
  int normed;  // heads that have a reciprocal norm
};

// All heads of a range in the block's tokens: dx = rstd (w dy - x rstd^2 mean(w dy x)); the weight gradient, the sum of
// dy x rstd over them, is left in `sums`, one row a warp.
template <class T, int kWidth, int kSteps>
__device__ void range_backward(const HeadNormArgs<T>& args, const HeadRange& range, const float* weight, int team,
                               float* sums) {
  constexpr int kBatch = kHeadBatch<kSteps>;
  const int lane = static_cast<int>(threadIdx.x) % team;
  const int teams = static_cast<int>(blockDim.x) / team;
  const int64_t first_token = static_cast<int64_t>(blockIdx.x) * op::kRmsNormRowsPerBlock;
  const int tokens = static_cast<int>(min(int64_t{op::kRmsNormRowsPerBlock}, args.tokens - first_token));
  float weights[kSteps][kWidth] = {};
  float dweight[kSteps][kWidth] = {};
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int at = (lane + s * team) * kWidth;
    if (at < args.head_dim) load_floats(weight + at, weights[s]);
  }
  for (int first = 0; first < tokens * range.count; first += teams * kBatch) {
    Pack<T, kWidth> x[kBatch][kSteps];
    Pack<T, kWidth> dy[kBatch][kSteps];
    int64_t starts[kBatch];  // -1: no such head
    float rstd[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int item = first + b * teams + static_cast<int>(threadIdx.x) / team;
      const bool exists = item < tokens * range.count;
      const int64_t token = first_token + item / range.count;
      const int head = range.first + item % range.count;
      starts[b] = exists ? (token * range.total + head) * args.head_dim : -1;
      rstd[b] = exists ? args.rstd[token * range.normed + head] : 0.0f;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int at = (lane + s * team) * kWidth;
        x[b][s] = {};
        dy[b][s] = {};
        if (!exists || at >= args.head_dim) continue;
        x[b][s] = load_pack<kWidth>(args.qkv + starts[b] + at);
        dy[b][s] = load_pack<kWidth>(args.out + starts[b] + at);
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      float dot = 0;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          dweight[s][i] += dy[b][s][i] * x[b][s][i] * rstd[b];
          dot += weights[s][i] * dy[b][s][i] * x[b][s][i];
        }
      }
      const float coefficient = team_sum(dot, team) / static_cast<float>(args.head_dim) * rstd[b] * rstd[b];
      if (starts[b] < 0) continue;
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int at = (lane + s * team) * kWidth;
        if (at >= args.head_dim) break;
        float values[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          values[i] = rstd[b] * (weights[s][i] * dy[b][s][i] - x[b][s][i] * coefficient);
        }
        store_floats(args.out + starts[b] + at, values);
      }
    }
  }
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      float sum = dweight[s][i];
      for (int distance = team; distance < kWarpSize; distance *= 2) {
        sum += __shfl_xor_sync(kFullWarp, sum, distance);
      }
      const int at = (lane + s * team) * kWidth + i;
      if (static_cast<int>(threadIdx.x) % kWarpSize < team && at < args.head_dim) sums[at] = sum;
    }
  }
}

// A block owns 64 tokens; its teams take their query heads in turn, then their key heads, and keep the weight gradient
// in registers. Teams and warps are added in order at the end. Traffic an element: qkv, dout read, dqkv written: 6
// bytes in bf16.
template <class T, int kWidth, int kSteps>
__global__ void __launch_bounds__(kBackwardThreads) head_norm_backward_kernel(HeadNormArgs<T> args, int team) {
  extern __shared__ float shared[];  // [warps][2 D]
  const int row = 2 * args.head_dim;
  const int total = args.heads + 2 * args.kv_heads;
  const int normed = args.heads + args.kv_heads;
  float* sums = shared + static_cast<int>(threadIdx.x) / kWarpSize * row;
  const HeadRange queries{.first = 0, .count = args.heads, .total = total, .normed = normed};
  const HeadRange keys{.first = args.heads, .count = args.kv_heads, .total = total, .normed = normed};
  range_backward<T, kWidth, kSteps>(args, queries, args.q_weight, team, sums);
  range_backward<T, kWidth, kSteps>(args, keys, args.k_weight, team, sums + args.head_dim);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < row; c += static_cast<int>(blockDim.x)) {
    float sum = 0;
    for (int w = 0; w < static_cast<int>(blockDim.x) / kWarpSize; ++w) sum += shared[w * row + c];
    args.partials[static_cast<int64_t>(blockIdx.x) * row + c] = sum;
  }
}

}  // namespace
}  // namespace litespark::cuda
