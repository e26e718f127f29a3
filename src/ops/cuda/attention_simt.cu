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

/// The row that a warp owns, of the queries or keys of `rank`, and the rows of its document beside it.
template <bool kIsPart>
struct OwnedRow {
  int row = 0;       ///< of the tensor
  int half = 0;      ///< chunk of a part
  int position = 0;  ///< in the document, or in what the chunk holds of it
  DocumentTile document;

  __device__ OwnedRow(const AttentionArguments& arguments, int rank)
      : row(static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarpSize) {
    if (row >= arguments.num_tokens) return;
    const DocumentTable table = document_table(arguments);
    if constexpr (kIsPart) {
      half = row >= arguments.num_tokens / kChunksOfRank ? 1 : 0;
      const RowChunk chunk = chunk_of_rank(arguments, rank, half);
      document = find_document(table, chunk.first + row - chunk.row);
      if (document.document < 0) return;
      const ChunkRows rows = document_in_chunk(table, chunk, document.document);
      document.begin = rows.begin;
      document.length = rows.length;
    } else {
      document = find_document(table, row);
    }
    position = row - document.begin;
  }
};

/// `sum` 0: the row sees none of the keys in hand.
__device__ void leave_merged(const AttentionArguments& arguments, const LaneRow& sum_row, float maximum, float sum,
                             int64_t stats, int64_t start) {
  if (sum == 0 && !arguments.first) return;
  const float before = arguments.first ? -INFINITY : arguments.log_sum_exp[stats];
  const MergedRow merged = sum == 0 ? MergedRow{.log_sum_exp = -INFINITY} : merge_row(before, maximum, sum);
  LaneRow all = sum_row;
  all.scale(merged.factor);
  if (!arguments.first) all.add(merged.keep, arguments.merged + start, arguments.head_dim);
  all.store(arguments.merged + start, arguments.head_dim);
  __syncwarp();  // every lane has read the statistics
  if (static_cast<int>(threadIdx.x) % kWarpSize == 0) arguments.log_sum_exp[stats] = merged.log_sum_exp;
}

template <class T, bool kIsPart>
__global__ void attention_forward_simt_kernel(const AttentionArguments arguments) {
  __shared__ float shared[kWarps][kMaxHeadDim];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int head_dim = arguments.head_dim;
  const OwnedRow<kIsPart> own(arguments, arguments.part.query_rank);
  if (own.row >= arguments.num_tokens) return;
  const int64_t start = own.row * arguments.out_stride() + head * head_dim;
  LaneRow sum_row;
  float maximum = -INFINITY;
  float sum = 0;
  if (own.document.document >= 0) {
    float* const query = shared[threadIdx.x / kWarpSize];
    share_row(query, arguments.queries_at<T>(own.row) + head * head_dim, head_dim);
    const int64_t stride = arguments.key_stride<kIsPart>();
    const float slope = arguments.slope(head);
    for_each_key_run<kIsPart>(arguments, own.document, own.half, [&](const MetRows<kAttentionTile>& run) {
      const T* const keys = arguments.keys_at<T, kIsPart>(run.begin) + head / arguments.group() * head_dim;
      const T* const values = keys + arguments.num_kv_heads * head_dim;
      const int position = run.band.offset + own.position;
      const int last = run.band.last_key(own.position);
      for (int chunk = run.band.first_key(own.position); chunk <= last; chunk += kWarpSize) {
        const int key = chunk + lane;
        const float score = key <= last ? arguments.scale * dot(query, keys + key * stride, head_dim) -
                                              slope * static_cast<float>(position - key)
                                        : -INFINITY;
        const float new_maximum = fmaxf(maximum, warp_max(score));
        const float rescale = expf(maximum - new_maximum);
        const float probability = expf(score - new_maximum);
        maximum = new_maximum;
        sum = sum * rescale + warp_sum(probability);
        sum_row.scale(rescale);
        for (int i = 0; i < min(kWarpSize, last + 1 - chunk); ++i) {
          sum_row.add(__shfl_sync(kFullWarp, probability, i), values + (chunk + i) * stride, head_dim);
        }
      }
    });
  }
  if constexpr (kIsPart) {
    leave_merged(arguments, sum_row, maximum, sum, int64_t{head} * arguments.num_tokens + own.row, start);
  } else {
    const bool exists = own.document.document >= 0;
    const int64_t stats = exists ? arguments.stats.start(head, own.document.document, own.document.begin) + own.position
                                 : int64_t{head} * arguments.num_tokens + own.row;
    if (exists) sum_row.scale(1.0f / sum);
    sum_row.store(static_cast<T*>(arguments.out) + start, head_dim);
    if (lane == 0) arguments.log_sum_exp[stats] = exists ? maximum + logf(sum) : 0;
    // Columns past head_dim are 0.
    if (arguments.abs_max != nullptr) raise_abs_max_of<T>(arguments.abs_max, larger_magnitude(0.0f, sum_row.values));
  }
}

template <class T, bool kIsPart>
__global__ void attention_backward_queries_simt_kernel(const AttentionArguments arguments) {
  __shared__ float shared[kWarps][2][kMaxHeadDim];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int head_dim = arguments.head_dim;
  const OwnedRow<kIsPart> own(arguments, arguments.part.query_rank);
  if (own.row >= arguments.num_tokens) return;
  LaneRow dq;
  if (own.document.document >= 0) {
    float* const query = shared[threadIdx.x / kWarpSize][0];
    float* const dout = shared[threadIdx.x / kWarpSize][1];
    share_row(query, arguments.queries_at<T>(own.row) + head * head_dim, head_dim);
    share_row(dout, arguments.douts_at<T>(own.row) + head * head_dim, head_dim);
    const int64_t stride = arguments.key_stride<kIsPart>();
    const float log_sum_exp =
        arguments.log_sum_exp[arguments.stats.start(head, own.document.document, own.document.begin) + own.position];
    const float delta = arguments.delta[int64_t{head} * arguments.num_tokens + own.row];
    const float slope = arguments.slope(head);
    for_each_key_run<kIsPart>(arguments, own.document, own.half, [&](const MetRows<kAttentionTile>& run) {
      const T* const keys = arguments.keys_at<T, kIsPart>(run.begin) + head / arguments.group() * head_dim;
      const T* const values = keys + arguments.num_kv_heads * head_dim;
      const int position = run.band.offset + own.position;
      const int last = run.band.last_key(own.position);
      for (int chunk = run.band.first_key(own.position); chunk <= last; chunk += kWarpSize) {
        const int key = chunk + lane;
        float gradient = 0;
        if (key <= last) {
          const float score =
              arguments.scale * dot(query, keys + key * stride, head_dim) - slope * static_cast<float>(position - key);
          gradient = expf(score - log_sum_exp) * (dot(dout, values + key * stride, head_dim) - delta);
        }
        for (int i = 0; i < min(kWarpSize, last + 1 - chunk); ++i) {
          dq.add(__shfl_sync(kFullWarp, gradient, i), keys + (chunk + i) * stride, head_dim);
        }
      }
    });
  }
  dq.scale(arguments.scale);
  if constexpr (kIsPart) {
    float* const dquery = arguments.dqueries + own.row * arguments.out_stride() + head * head_dim;
    if (!arguments.first) dq.add(1, dquery, head_dim);
    dq.store(dquery, head_dim);
  } else {
    dq.store(static_cast<T*>(arguments.dqkv) + own.row * arguments.qkv_stride() + head * head_dim, head_dim);
  }
}

template <class T, bool kIsPart>
__global__ void attention_backward_keys_simt_kernel(const AttentionArguments arguments) {
  __shared__ float shared[kWarps][2][kMaxHeadDim];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int kv_head = arguments.busy_kv_head(static_cast<int>(blockIdx.y));
  const int head_dim = arguments.head_dim;
  const OwnedRow<kIsPart> own(arguments, arguments.part.key_rank);
  if (own.row >= arguments.num_tokens) return;
  const int values_behind = arguments.num_kv_heads * head_dim;
  LaneRow dk;
  LaneRow dv;
  if (own.document.document >= 0) {
    float* const key = shared[threadIdx.x / kWarpSize][0];
    float* const value = shared[threadIdx.x / kWarpSize][1];
    const T* const rows = arguments.keys_at<T, kIsPart>(own.row) + kv_head * head_dim;
    share_row(key, rows, head_dim);
    share_row(value, rows + values_behind, head_dim);
    for_each_query_run<kIsPart>(arguments, own.document, own.half, [&](const MetRows<kAttentionTile>& run) {
      const int64_t stride = arguments.qkv_stride();
      const int64_t out_stride = arguments.out_stride();
      const int end = run.band.last_query(own.position) + 1;
      for (int head = kv_head * arguments.group(); head < (kv_head + 1) * arguments.group(); ++head) {
        if (!arguments.gates.is_on(head)) continue;
        const T* const queries = arguments.queries_at<T>(run.begin) + head * head_dim;
        const T* const douts = arguments.douts_at<T>(run.begin) + head * head_dim;
        const int64_t stats = arguments.stats.start(head, own.document.document, run.begin);
        const int64_t deltas = int64_t{head} * arguments.num_tokens + run.begin;
        const float slope = arguments.slope(head);
        for (int chunk = run.band.first_query(own.position); chunk < end; chunk += kWarpSize) {
          const int query = chunk + lane;
          float probability = 0;
          float gradient = 0;
          if (query < end) {
            const float score = arguments.scale * dot(key, queries + query * stride, head_dim) -
                                slope * static_cast<float>(run.band.offset + query - own.position);
            probability = expf(score - arguments.log_sum_exp[stats + query]);
            gradient =
                probability * (dot(value, douts + query * out_stride, head_dim) - arguments.delta[deltas + query]);
          }
          for (int i = 0; i < min(kWarpSize, end - chunk); ++i) {
            dv.add(__shfl_sync(kFullWarp, probability, i), douts + (chunk + i) * out_stride, head_dim);
            dk.add(__shfl_sync(kFullWarp, gradient, i), queries + (chunk + i) * stride, head_dim);
          }
        }
      }
    });
  }
  dk.scale(arguments.scale);
  auto* const dkey =
      key_gradients<T, kIsPart>(arguments) + own.row * arguments.key_stride<kIsPart>() + kv_head * head_dim;
  dk.store(dkey, head_dim);
  dv.store(dkey + values_behind, head_dim);
}

/// One warp a row and head. Calls get_kernel(is_part) with a compile-time constant.
template <class GetKernel>
void launch_rows(const AttentionArguments& arguments, int num_heads, const DeviceContext& context,
                 const GetKernel& get_kernel) {
  launch_kernel({.kernel = arguments.is_part() ? get_kernel(std::true_type{}) : get_kernel(std::false_type{}),
                 .blocks_x = static_cast<unsigned>(ceil_div(arguments.num_tokens, kWarps)),
                 .blocks_y = static_cast<unsigned>(num_heads),
                 .threads = kWarps * kWarpSize,
                 .name = "attention"},
                arguments, context);
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
    launch_rows(arguments, arguments.num_on(), context,
                [](auto is_part) { return attention_forward_simt_kernel<T, is_part>; });
  });
}

void launch_attention_backward_simt(const AttentionArguments& arguments, DType dtype, const DeviceContext& context) {
  require_head_dim(arguments);
  visit_float_dtype("attention_backward", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_rows(arguments, arguments.num_on(), context,
                [](auto is_part) { return attention_backward_queries_simt_kernel<T, is_part>; });
    launch_rows(arguments, arguments.num_busy_kv_heads(), context,
                [](auto is_part) { return attention_backward_keys_simt_kernel<T, is_part>; });
  });
}

}  // namespace litespark::cuda
