// SPDX-License-Identifier: Apache-2.0
// Attention of a few new tokens against a cache, for generation. A block owns one (query, head); its warps walk the
// cache in turns with an online softmax each, and their states are joined in warp order.
#include "core/error.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"

namespace litespark::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxHeadDim = 256;
constexpr int kPerLane = kMaxHeadDim / kWarpSize;
constexpr int kAppendThreads = 256;

struct CachedArguments {
  void* out = nullptr;
  void* cache = nullptr;
  const void* qkv = nullptr;
  const int32_t* past_lengths = nullptr;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int window = 0;
  float scale = 0;
  int capacity = 0;
  int new_tokens = 0;  ///< a sequence
  bool has_alibi = false;
  op::HeadGates gates;

  __device__ int64_t qkv_stride() const { return int64_t{num_heads + 2 * num_kv_heads} * head_dim; }
  __device__ int64_t cache_stride() const { return int64_t{2 * num_kv_heads} * head_dim; }
};

/// Copies the keys and values of row blockIdx.x behind the rows that its sequence has filled.
template <class T>
__global__ void append_to_cache_kernel(const CachedArguments arguments) {
  const int token = static_cast<int>(blockIdx.x);
  const int sequence = token / arguments.new_tokens;
  const int row = arguments.past_lengths[sequence] + token % arguments.new_tokens;
  if (row >= arguments.capacity) return;
  const T* const source =
      static_cast<const T*>(arguments.qkv) + token * arguments.qkv_stride() + arguments.num_heads * arguments.head_dim;
  T* const destination =
      static_cast<T*>(arguments.cache) + (int64_t{sequence} * arguments.capacity + row) * arguments.cache_stride();
  for (int i = static_cast<int>(threadIdx.x); i < 2 * arguments.num_kv_heads * arguments.head_dim;
       i += kAppendThreads) {
    destination[i] = source[i];
  }
}

/// Softmax state of one warp; `out` holds column lane + 32 i in element i.
struct WarpState {
  float maximum = -INFINITY;
  float sum = 0;
  float out[kPerLane] = {};
};

/// One key: the warp forms the score together, to which `bias` is added; lanes keep their own columns of the sum.
template <class T>
__device__ void add_key(WarpState& state, const float (&query)[kPerLane], const T* key, const T* value, int head_dim,
                        float bias) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float score = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int d = lane + kWarpSize * i;
    if (d < head_dim) score += query[i] * as_float(key[d]);
  }
  score = warp_sum(score) + bias;
  const float maximum = fmaxf(state.maximum, score);
  const float rescale = expf(state.maximum - maximum);
  const float probability = expf(score - maximum);
  state.maximum = maximum;
  state.sum = state.sum * rescale + probability;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int d = lane + kWarpSize * i;
    if (d < head_dim) state.out[i] = state.out[i] * rescale + probability * as_float(value[d]);
  }
}

template <class T>
__global__ void attention_cached_kernel(const __grid_constant__ CachedArguments arguments) {
  __shared__ float shared_out[kWarps][kMaxHeadDim];
  __shared__ float shared_maximum[kWarps];
  __shared__ float shared_sum[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int token = static_cast<int>(blockIdx.x);
  const int head = arguments.gates.nth_on(0, static_cast<int>(blockIdx.y));
  const int head_dim = arguments.head_dim;
  const int sequence = token / arguments.new_tokens;
  const int position = arguments.past_lengths[sequence] + token % arguments.new_tokens;
  const int last = min(position, arguments.capacity - 1);
  const int first = arguments.window > 0 ? max(0, position - arguments.window + 1) : 0;

  const T* const query_row = static_cast<const T*>(arguments.qkv) + token * arguments.qkv_stride() + head * head_dim;
  float query[kPerLane] = {};
  for (int i = 0; i < kPerLane; ++i) {
    const int d = lane + kWarpSize * i;
    if (d < head_dim) query[i] = as_float(query_row[d]) * arguments.scale;
  }
  const int64_t stride = arguments.cache_stride();
  const T* const keys = static_cast<const T*>(arguments.cache) + int64_t{sequence} * arguments.capacity * stride +
                        head / (arguments.num_heads / arguments.num_kv_heads) * head_dim;
  const T* const values = keys + arguments.num_kv_heads * head_dim;
  const float slope =
      arguments.has_alibi ? exp2f(static_cast<float>(op::alibi_log2_slope(head, arguments.num_heads))) : 0.0f;
  WarpState state;
  for (int row = first + warp; row <= last; row += kWarps) {
    add_key(state, query, keys + row * stride, values + row * stride, head_dim,
            -slope * static_cast<float>(position - row));
  }
  if (lane == 0) {
    shared_maximum[warp] = state.maximum;
    shared_sum[warp] = state.sum;
  }
  for (int i = 0; i < kPerLane; ++i) shared_out[warp][lane + kWarpSize * i] = state.out[i];
  __syncthreads();

  float maximum = -INFINITY;
  for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, shared_maximum[w]);
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += shared_sum[w] * expf(shared_maximum[w] - maximum);
  T* const out = static_cast<T*>(arguments.out) + (int64_t{token} * arguments.num_heads + head) * head_dim;
  for (int d = static_cast<int>(threadIdx.x); d < head_dim; d += kWarps * kWarpSize) {
    float value = 0;
    for (int w = 0; w < kWarps; ++w) value += shared_out[w][d] * expf(shared_maximum[w] - maximum);
    out[d] = from_float<T>(value / sum);
  }
}

}  // namespace

void CudaBackend::run(const op::AttentionCached<Tensor>& op) {
  if (op.shape.head_dim > kMaxHeadDim) {
    throw ConfigError(op.kName, "head size not supported on this device", op.shape.head_dim, "at most 256");
  }
  const int64_t tokens = op.qkv.rows();
  if (tokens == 0) return;
  const CachedArguments arguments{.out = op.out.data,
                                  .cache = op.cache.data,
                                  .qkv = op.qkv.data,
                                  .past_lengths = op.past_lengths.as<int32_t>(),
                                  .num_heads = op.shape.num_heads,
                                  .num_kv_heads = op.shape.num_kv_heads,
                                  .head_dim = op.shape.head_dim,
                                  .window = op.shape.window,
                                  .scale = op.shape.scale,
                                  .capacity = op.capacity,
                                  .new_tokens = static_cast<int>(tokens / op.batch),
                                  .has_alibi = op.shape.has_alibi,
                                  .gates = op.shape.gates};
  const int num_on = op.shape.gates.num_on(0, op.shape.num_heads);
  clear_off_heads(op.shape, op.out, context_);
  visit_float_dtype(op.kName, op.qkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto rows = static_cast<unsigned>(tokens);
    append_to_cache_kernel<T><<<rows, kAppendThreads, 0, context_.stream>>>(arguments);
    const dim3 grid(rows, static_cast<unsigned>(num_on));
    if (num_on == 0) return;
    attention_cached_kernel<T><<<grid, kWarps * kWarpSize, 0, context_.stream>>>(arguments);
  });
  check_launch(op.kName);
}

}  // namespace litespark::cuda
