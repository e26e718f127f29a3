// SPDX-License-Identifier: Apache-2.0
// Attention in plain fp32 arithmetic for exactness checks, and for head sizes without a tensor-core kernel. One warp
// owns one output row: lanes share out the keys (or queries) of a chunk for the scores and the columns for the sums.
#include "core/checked.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/attention_launch.cuh"

namespace litespark::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;
constexpr int kPerLane = kMaxHeadDim / kWarpSize;

/// A row of up to kMaxHeadDim columns, column lane + 32 i in register i.
struct LaneRow {
  float values[kPerLane] = {};

  __device__ void scale(float factor) {
    for (float& value : values) value *= factor;
  }
  template <class T>
  __device__ void add(float factor, const T* row, int head_dim) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int d = lane + kWarpSize * i;
      if (d < head_dim) values[i] += factor * as_float(row[d]);
    }
  }
  template <class T>
  __device__ void store(T* row, int head_dim) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int d = lane + kWarpSize * i;
      if (d < head_dim) row[d] = from_float<T>(values[i]);
    }
  }
};

/// Copies a row to the warp's own shared memory, where every lane reads all of it.
template <class T>
__device__ void share_row(float* shared, const T* row, int head_dim) {
  for (int d = static_cast<int>(threadIdx.x) % kWarpSize; d < head_dim; d += kWarpSize) shared[d] = as_float(row[d]);
  __syncwarp();
}

template <class T>
__device__ float dot(const float* shared, const T* row, int head_dim) {
  float sum = 0;
  for (int d = 0; d < head_dim; ++d) sum += shared[d] * as_float(row[d]);
  return sum;
}

__device__ float warp_max(float value) {
#pragma unroll
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, distance));
  }
  return value;
}

/// The row that a warp owns, and where its document's rows start.
template <class T>
struct OwnedRow {
  int token = 0;     ///< of the batch
  int position = 0;  ///< in the document
  DocumentTile document;
  const T* qkv = nullptr;   ///< first row of the document
  const T* dout = nullptr;  ///< likewise
  int64_t stride = 0;
  int64_t out_stride = 0;

  __device__ OwnedRow(const AttentionArguments& arguments)
      : token(static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarpSize),
        stride(arguments.qkv_stride()),
        out_stride(arguments.out_stride()) {
    if (token >= arguments.num_tokens) return;
    document = find_document(document_table(arguments), token);
    position = token - document.begin;
    qkv = static_cast<const T*>(arguments.qkv) + document.begin * stride;
    dout = static_cast<const T*>(arguments.dout) + document.begin * out_stride;
  }
};

template <class T>
__global__ void attention_forward_simt_kernel(const AttentionArguments arguments) {
  __shared__ float shared[kWarps][kMaxHeadDim];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int head_dim = arguments.head_dim;
  const OwnedRow<T> own(arguments);
  if (own.token >= arguments.num_tokens) return;
  T* const out = static_cast<T*>(arguments.out) + own.token * own.out_stride + head * head_dim;
  const int64_t stats = arguments.stats.start(head, own.document.document, own.document.begin) + own.position;
  LaneRow sum_row;
  if (own.document.document < 0) {
    sum_row.store(out, head_dim);
    if (lane == 0) arguments.log_sum_exp[int64_t{head} * arguments.num_tokens + own.token] = 0;
    return;
  }
  float* const query = shared[threadIdx.x / kWarpSize];
  share_row(query, own.qkv + own.position * own.stride + head * head_dim, head_dim);
  const T* const keys = own.qkv + (arguments.num_heads + head / arguments.group()) * head_dim;
  const T* const values = keys + arguments.num_kv_heads * head_dim;
  const int first = arguments.window > 0 ? max(0, own.position - arguments.window + 1) : 0;
  const float slope = arguments.slope(head);
  float maximum = -INFINITY;
  float sum = 0;
  for (int chunk = first; chunk <= own.position; chunk += kWarpSize) {
    const int key = chunk + lane;
    const float score = key <= own.position ? arguments.scale * dot(query, keys + key * own.stride, head_dim) -
                                                  slope * static_cast<float>(own.position - key)
                                            : -INFINITY;
    const float new_maximum = fmaxf(maximum, warp_max(score));
    const float rescale = expf(maximum - new_maximum);
    const float probability = expf(score - new_maximum);
    maximum = new_maximum;
    sum = sum * rescale + warp_sum(probability);
    sum_row.scale(rescale);
    for (int i = 0; i < min(kWarpSize, own.position + 1 - chunk); ++i) {
      sum_row.add(__shfl_sync(kFullWarp, probability, i), values + (chunk + i) * own.stride, head_dim);
    }
  }
  sum_row.scale(1.0f / sum);
  sum_row.store(out, head_dim);
  // Columns past head_dim are 0.
  if (arguments.abs_max != nullptr) raise_abs_max_of<T>(arguments.abs_max, larger_magnitude(0.0f, sum_row.values));
  if (lane == 0) arguments.log_sum_exp[stats] = maximum + logf(sum);
}

template <class T>
__global__ void attention_backward_queries_simt_kernel(const AttentionArguments arguments) {
  __shared__ float shared[kWarps][2][kMaxHeadDim];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int head_dim = arguments.head_dim;
  const OwnedRow<T> own(arguments);
  if (own.token >= arguments.num_tokens) return;
  T* const dquery = static_cast<T*>(arguments.dqkv) + own.token * own.stride + head * head_dim;
  LaneRow dq;
  if (own.document.document < 0) return dq.store(dquery, head_dim);
  float* const query = shared[threadIdx.x / kWarpSize][0];
  float* const dout = shared[threadIdx.x / kWarpSize][1];
  share_row(query, own.qkv + own.position * own.stride + head * head_dim, head_dim);
  share_row(dout, own.dout + own.position * own.out_stride + head * head_dim, head_dim);
  const T* const keys = own.qkv + (arguments.num_heads + head / arguments.group()) * head_dim;
  const T* const values = keys + arguments.num_kv_heads * head_dim;
  const float log_sum_exp =
      arguments.log_sum_exp[arguments.stats.start(head, own.document.document, own.document.begin) + own.position];
  const float delta = arguments.delta[int64_t{head} * arguments.num_tokens + own.token];
  const float slope = arguments.slope(head);
  const int first = arguments.window > 0 ? max(0, own.position - arguments.window + 1) : 0;
  for (int chunk = first; chunk <= own.position; chunk += kWarpSize) {
    const int key = chunk + lane;
    float gradient = 0;
    if (key <= own.position) {
      const float score = arguments.scale * dot(query, keys + key * own.stride, head_dim) -
                          slope * static_cast<float>(own.position - key);
      gradient = expf(score - log_sum_exp) * (dot(dout, values + key * own.stride, head_dim) - delta);
    }
    for (int i = 0; i < min(kWarpSize, own.position + 1 - chunk); ++i) {
      dq.add(__shfl_sync(kFullWarp, gradient, i), keys + (chunk + i) * own.stride, head_dim);
    }
  }
  dq.scale(arguments.scale);
  dq.store(dquery, head_dim);
}

template <class T>
__global__ void attention_backward_keys_simt_kernel(const AttentionArguments arguments) {
  __shared__ float shared[kWarps][2][kMaxHeadDim];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int kv_head = arguments.busy_kv_head(static_cast<int>(blockIdx.y));
  const int head_dim = arguments.head_dim;
  const OwnedRow<T> own(arguments);
  if (own.token >= arguments.num_tokens) return;
  const int key_column = (arguments.num_heads + kv_head) * head_dim;
  const int value_column = key_column + arguments.num_kv_heads * head_dim;
  T* const drow = static_cast<T*>(arguments.dqkv) + own.token * own.stride;
  LaneRow dk;
  LaneRow dv;
  float* const key = shared[threadIdx.x / kWarpSize][0];
  float* const value = shared[threadIdx.x / kWarpSize][1];
  if (own.document.document >= 0) {
    share_row(key, own.qkv + own.position * own.stride + key_column, head_dim);
    share_row(value, own.qkv + own.position * own.stride + value_column, head_dim);
  }
  const int length = own.document.document < 0 ? 0 : own.document.length;
  const bool cut = arguments.window > 0 && arguments.window < length - own.position;
  const int end = cut ? own.position + arguments.window : length;
  for (int head = kv_head * arguments.group(); head < (kv_head + 1) * arguments.group(); ++head) {
    if (!arguments.gates.is_on(head)) continue;
    const T* const queries = own.qkv + head * head_dim;
    const T* const douts = own.dout + head * head_dim;
    const int64_t stats = arguments.stats.start(head, own.document.document, own.document.begin);
    const int64_t deltas = int64_t{head} * arguments.num_tokens + own.document.begin;
    const float slope = arguments.slope(head);
    for (int chunk = own.position; chunk < end; chunk += kWarpSize) {
      const int query = chunk + lane;
      float probability = 0;
      float gradient = 0;
      if (query < end) {
        const float score = arguments.scale * dot(key, queries + query * own.stride, head_dim) -
                            slope * static_cast<float>(query - own.position);
        probability = expf(score - arguments.log_sum_exp[stats + query]);
        gradient =
            probability * (dot(value, douts + query * own.out_stride, head_dim) - arguments.delta[deltas + query]);
      }
      for (int i = 0; i < min(kWarpSize, end - chunk); ++i) {
        dv.add(__shfl_sync(kFullWarp, probability, i), douts + (chunk + i) * own.out_stride, head_dim);
        dk.add(__shfl_sync(kFullWarp, gradient, i), queries + (chunk + i) * own.stride, head_dim);
      }
    }
  }
  dk.scale(arguments.scale);
  dk.store(drow + key_column, head_dim);
  dv.store(drow + value_column, head_dim);
}

dim3 row_grid(const AttentionArguments& arguments, int num_heads) {
  return {static_cast<unsigned>(ceil_div(arguments.num_tokens, kWarps)), static_cast<unsigned>(num_heads)};
}

void require_head_dim(const AttentionArguments& arguments) {
  if (arguments.head_dim > kMaxHeadDim) {
    throw ConfigError("attention", "head size not supported on this device", arguments.head_dim, "at most 256");
  }
}

}  // namespace

void launch_attention_forward_simt(const AttentionArguments& arguments, DType dtype, const DeviceContext& context) {
  require_head_dim(arguments);
  visit_float_dtype("attention_forward", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    attention_forward_simt_kernel<T>
        <<<row_grid(arguments, arguments.num_on()), kWarps * kWarpSize, 0, context.stream>>>(arguments);
  });
  check_launch("attention_forward");
}

void launch_attention_backward_simt(const AttentionArguments& arguments, DType dtype, const DeviceContext& context) {
  require_head_dim(arguments);
  visit_float_dtype("attention_backward", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    attention_backward_queries_simt_kernel<T>
        <<<row_grid(arguments, arguments.num_on()), kWarps * kWarpSize, 0, context.stream>>>(arguments);
    attention_backward_keys_simt_kernel<T>
        <<<row_grid(arguments, arguments.num_busy_kv_heads()), kWarps * kWarpSize, 0, context.stream>>>(arguments);
  });
  check_launch("attention_backward");
}

}  // namespace litespark::cuda
