// SPDX-License-Identifier: Apache-2.0
// Attention over packed documents, a query row at a time with the softmax kept online over tiles of keys. A task is a
// (document, key/value head) pair and owns all that it writes, so bits do not depend on the thread count.
#include "core/op/attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/matmul_library.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {
namespace {

constexpr int kKeyTile = 64;

template <class Value>
float dot(const Value* a, const Value* b, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += load_float(a[i]) * load_float(b[i]);
  return sum;
}

int64_t first_visible(int64_t query, int window) {
  return window > 0 ? std::max<int64_t>(0, query - window + 1) : 0;
}

/// Keys and values of one head: row j is `keys + j * stride`, `values + j * stride`.
template <class Value>
struct HeadRows {
  const Value* keys;
  const Value* values;
  int64_t stride;
};

/// out = softmax over keys [first, last] of one query; `sum` has D floats. Returns the log of the scores' sum.
template <class Value>
float attend_row(const Value* query, const HeadRows<Value>& rows, int64_t first, int64_t last,
                 const op::AttentionShape& shape, float* sum, Value* out) {
  float largest = -std::numeric_limits<float>::infinity();
  float total = 0;
  std::fill_n(sum, shape.head_dim, 0.0f);
  for (int64_t tile = first; tile <= last; tile += kKeyTile) {
    const int64_t count = std::min<int64_t>(kKeyTile, last + 1 - tile);
    float scores[kKeyTile];
    float tile_largest = largest;
    for (int64_t j = 0; j < count; ++j) {
      scores[j] = shape.scale * dot(query, rows.keys + (tile + j) * rows.stride, shape.head_dim);
      tile_largest = std::max(tile_largest, scores[j]);
    }
    const float rescale = std::exp(largest - tile_largest);
    largest = tile_largest;
    total *= rescale;
    for (int d = 0; d < shape.head_dim; ++d) sum[d] *= rescale;
    for (int64_t j = 0; j < count; ++j) {
      const float weight = std::exp(scores[j] - largest);
      const Value* value = rows.values + (tile + j) * rows.stride;
      total += weight;
      for (int d = 0; d < shape.head_dim; ++d) sum[d] += weight * load_float(value[d]);
    }
  }
  for (int d = 0; d < shape.head_dim; ++d) store_float(out[d], sum[d] / total);
  return largest + std::log(total);
}

template <class Value>
void zero_tail_rows(Value* data, int64_t first_row, int64_t num_rows, int64_t columns) {
  std::fill(data + first_row * columns, data + num_rows * columns, Value{});
}

template <class Value>
void forward(const op::AttentionForward<Tensor>& op, int threads) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_tokens = op.qkv.rows();
  const int64_t stride = op.qkv.columns();
  const int64_t out_stride = int64_t{shape.num_heads} * shape.head_dim;
  const auto* offsets = op.offsets.as<int32_t>();
  const int64_t num_documents = *op.num_documents.as<int32_t>();
  const auto* qkv = op.qkv.as<Value>();
  auto* out = op.out.as<Value>();
  auto* log_sum_exp = op.log_sum_exp.as<float>();
  const Scratch scratch("attention_forward", op.scratch, threads * round_up(shape.head_dim * 4, kScratchAlignment));
  const int group = shape.num_heads / shape.num_kv_heads;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t task = 0; task < num_documents * shape.num_heads; ++task) {
    const int64_t document = task / shape.num_heads;
    const int64_t head = task % shape.num_heads;
    auto* sum = reinterpret_cast<float*>(scratch.data() +
                                         omp_get_thread_num() * round_up(shape.head_dim * 4, kScratchAlignment));
    const int64_t first = offsets[document];
    const Value* keys = qkv + first * stride + (shape.num_heads + head / group) * shape.head_dim;
    const HeadRows<Value> rows{keys, keys + int64_t{shape.num_kv_heads} * shape.head_dim, stride};
    for (int64_t i = 0; i < offsets[document + 1] - first; ++i) {
      log_sum_exp[head * num_tokens + first + i] =
          attend_row(qkv + (first + i) * stride + head * shape.head_dim, rows, first_visible(i, shape.window), i, shape,
                     sum, out + (first + i) * out_stride + head * shape.head_dim);
    }
  }
  const int64_t end = num_documents > 0 ? offsets[num_documents] : 0;
  zero_tail_rows(out, end, num_tokens, out_stride);
  for (int64_t head = 0; head < shape.num_heads; ++head) {
    zero_tail_rows(log_sum_exp + head * num_tokens, end, num_tokens, 1);
  }
}

/// Where one query row's gradient comes from and goes to, besides the key and value gradients it adds to.
template <class Value>
struct BackwardRow {
  const Value* query;
  const Value* out;
  const Value* dout;
  float log_sum_exp;
  int64_t first, last;
};

template <class Value>
void backward_row(const BackwardRow<Value>& row, const HeadRows<Value>& rows, const op::AttentionShape& shape,
                  float* dquery, float* dkeys, float* dvalues) {
  const int dim = shape.head_dim;
  const float delta = dot(row.dout, row.out, dim);
  std::fill_n(dquery, dim, 0.0f);
  for (int64_t j = row.first; j <= row.last; ++j) {
    const Value* key = rows.keys + j * rows.stride;
    const float weight = std::exp(shape.scale * dot(row.query, key, dim) - row.log_sum_exp);
    const float dscore = shape.scale * weight * (dot(row.dout, rows.values + j * rows.stride, dim) - delta);
    for (int d = 0; d < dim; ++d) {
      dquery[d] += dscore * load_float(key[d]);
      dkeys[j * dim + d] += dscore * load_float(row.query[d]);
      dvalues[j * dim + d] += weight * load_float(row.dout[d]);
    }
  }
}

int64_t backward_thread_bytes(const op::AttentionShape& shape) {
  return round_up((2 * int64_t{shape.max_length} + 1) * shape.head_dim * 4, kScratchAlignment);
}

template <class Value>
void backward(const op::AttentionBackward<Tensor>& op, int threads) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_tokens = op.qkv.rows();
  const int64_t stride = op.qkv.columns();
  const int dim = shape.head_dim;
  const int64_t out_stride = int64_t{shape.num_heads} * dim;
  const auto* offsets = op.offsets.as<int32_t>();
  const int64_t num_documents = *op.num_documents.as<int32_t>();
  const auto* qkv = op.qkv.as<Value>();
  auto* dqkv = op.dqkv.as<Value>();
  const Scratch scratch("attention_backward", op.scratch, threads * backward_thread_bytes(shape));
  const int group = shape.num_heads / shape.num_kv_heads;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t task = 0; task < num_documents * shape.num_kv_heads; ++task) {
    const int64_t document = task / shape.num_kv_heads;
    const int64_t kv_head = task % shape.num_kv_heads;
    const int64_t first = offsets[document];
    const int64_t length = offsets[document + 1] - first;
    auto* dkeys = reinterpret_cast<float*>(scratch.data() + omp_get_thread_num() * backward_thread_bytes(shape));
    float* dvalues = dkeys + length * dim;
    float* dquery = dvalues + length * dim;
    std::fill(dkeys, dquery, 0.0f);
    const Value* keys = qkv + first * stride + (shape.num_heads + kv_head) * dim;
    const HeadRows<Value> rows{keys, keys + int64_t{shape.num_kv_heads} * dim, stride};
    for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (int64_t i = 0; i < length; ++i) {
        const int64_t out_offset = (first + i) * out_stride + head * dim;
        const BackwardRow<Value> row{.query = qkv + (first + i) * stride + head * dim,
                                     .out = op.out.as<Value>() + out_offset,
                                     .dout = op.dout.as<Value>() + out_offset,
                                     .log_sum_exp = op.log_sum_exp.as<float>()[head * num_tokens + first + i],
                                     .first = first_visible(i, shape.window),
                                     .last = i};
        backward_row(row, rows, shape, dquery, dkeys, dvalues);
        for (int d = 0; d < dim; ++d) store_float(dqkv[(first + i) * stride + head * dim + d], dquery[d]);
      }
    }
    Value* dkey_rows = dqkv + first * stride + (shape.num_heads + kv_head) * dim;
    for (int64_t j = 0; j < length; ++j) {
      for (int d = 0; d < dim; ++d) {
        store_float(dkey_rows[j * stride + d], dkeys[j * dim + d]);
        store_float(dkey_rows[j * stride + shape.num_kv_heads * dim + d], dvalues[j * dim + d]);
      }
    }
  }
  zero_tail_rows(dqkv, num_documents > 0 ? offsets[num_documents] : 0, num_tokens, stride);
}

}  // namespace

int64_t MatmulLibrary::attention_forward_scratch_bytes(const op::AttentionShape& shape, int64_t, DType) const {
  return threads_ * round_up(shape.head_dim * 4, kScratchAlignment);
}

int64_t MatmulLibrary::attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t, DType) const {
  return threads_ * backward_thread_bytes(shape);
}

void CpuBackend::run(const op::AttentionForward<Tensor>& op) {
  visit_float_dtype("attention_forward", op.qkv.dtype,
                    [&](auto tag) { forward<typename decltype(tag)::type>(op, threads_); });
}

void CpuBackend::run(const op::AttentionBackward<Tensor>& op) {
  visit_float_dtype("attention_backward", op.qkv.dtype,
                    [&](auto tag) { backward<typename decltype(tag)::type>(op, threads_); });
}

void CpuBackend::run(const op::AttentionCached<Tensor>& op) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_new = op.qkv.rows() / op.batch;
  const int64_t dim = shape.head_dim;
  const int64_t cache_stride = 2 * int64_t{shape.num_kv_heads} * dim;
  const auto* past_lengths = op.past_lengths.as<int32_t>();
  for (int b = 0; b < op.batch; ++b) {
    if (past_lengths[b] < 0 || past_lengths[b] + num_new > op.capacity) {
      throw InternalError("attention_cached", "cache overflows", past_lengths[b] + num_new, op.capacity);
    }
  }
  visit_float_dtype("attention_cached", op.qkv.dtype, [&](auto tag) {
    using Value = typename decltype(tag)::type;
    const auto* qkv = op.qkv.as<Value>();
    auto* cache = op.cache.as<Value>();
    auto* out = op.out.as<Value>();
    for (int b = 0; b < op.batch; ++b) {
      for (int64_t i = 0; i < num_new; ++i) {
        const Value* from = qkv + (b * num_new + i) * op.qkv.columns() + shape.num_heads * dim;
        std::copy_n(from, cache_stride, cache + (int64_t{b} * op.capacity + past_lengths[b] + i) * cache_stride);
      }
    }
    const Scratch scratch("attention_cached", {}, threads_ * round_up(dim * 4, kScratchAlignment));
    const int group = shape.num_heads / shape.num_kv_heads;
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (int64_t task = 0; task < op.batch * num_new * shape.num_heads; ++task) {
      const int64_t token = task / shape.num_heads;
      const int64_t head = task % shape.num_heads;
      const int64_t b = token / num_new;
      const int64_t position = past_lengths[b] + token % num_new;
      const Value* keys = cache + b * op.capacity * cache_stride + head / group * dim;
      auto* sum =
          reinterpret_cast<float*>(scratch.data() + omp_get_thread_num() * round_up(dim * 4, kScratchAlignment));
      attend_row(qkv + token * op.qkv.columns() + head * dim, {keys, keys + shape.num_kv_heads * dim, cache_stride},
                 first_visible(position, shape.window), position, shape, sum,
                 out + token * shape.num_heads * dim + head * dim);
    }
  });
}

}  // namespace litespark::cpu
