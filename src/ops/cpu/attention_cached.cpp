// SPDX-License-Identifier: Apache-2.0
// Attention against a cache, for generation. Prompts run through the forward tiles; a few new tokens, whose tiles would
// be nearly empty, run query by query.
#include <omp.h>

#include <algorithm>

#include "ops/cpu/attention_documents.h"
#include "ops/cpu/attention_scratch.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {
namespace {

/// From this many new tokens a sequence on, tiles are faster.
constexpr int64_t kTileTokens = 16;

/// The op's tensors, with strides and lengths at hand.
template <class Value>
struct CachedCall {
  explicit CachedCall(const op::AttentionCached<Tensor>& op)
      : shape(op.shape),
        qkv(op.qkv.as<Value>()),
        cache(op.cache.as<Value>()),
        out(op.out.as<Value>()),
        past_lengths(op.past_lengths.as<int32_t>()),
        num_new(op.qkv.rows() / op.batch),
        batch(op.batch),
        capacity(op.capacity),
        qkv_stride(op.qkv.columns()),
        cache_stride(2 * int64_t{shape.num_kv_heads} * shape.head_dim),
        out_stride(int64_t{shape.num_heads} * shape.head_dim),
        group(shape.num_heads / shape.num_kv_heads) {}

  Value* cache_rows(int64_t sequence) const { return cache + sequence * capacity * cache_stride; }
  AttentionRows keys(int64_t sequence, int64_t kv_head) const {
    return {cache_rows(sequence) + kv_head * shape.head_dim, cache_stride};
  }
  AttentionRows values(int64_t sequence, int64_t kv_head) const {
    return {cache_rows(sequence) + (shape.num_kv_heads + kv_head) * shape.head_dim, cache_stride};
  }

  float slope(int64_t head) const {
    return shape.has_alibi ? op::alibi_slope(static_cast<int>(head), shape.num_heads) : 0.0f;
  }

  op::AttentionShape shape;
  const Value* qkv;
  Value* cache;
  Value* out;
  const int32_t* past_lengths;
  int64_t num_new, batch, capacity, qkv_stride, cache_stride, out_stride;
  int group;
};

template <class Value>
void append(const CachedCall<Value>& call) {
  for (int64_t sequence = 0; sequence < call.batch; ++sequence) {
    for (int64_t i = 0; i < call.num_new; ++i) {
      const Value* from = call.qkv + (sequence * call.num_new + i) * call.qkv_stride + call.out_stride;
      std::copy_n(from, call.cache_stride,
                  call.cache_rows(sequence) + (call.past_lengths[sequence] + i) * call.cache_stride);
    }
  }
}

template <class Value>
void attend_rows(const CachedCall<Value>& call, const AttentionKernels& kernels, int threads) {
  const int64_t dim = call.shape.head_dim;
  parallel_blocks(threads, call.batch * call.num_new * call.shape.num_heads, [&](int64_t index) {
    const int64_t token = index / call.shape.num_heads;
    const int64_t head = index % call.shape.num_heads;
    Value* const out = call.out + token * call.out_stride + head * dim;
    if (!call.shape.gates.is_on(static_cast<int>(head))) {
      std::fill_n(out, dim, Value{});
      return;
    }
    const int64_t sequence = token / call.num_new;
    const int64_t position = call.past_lengths[sequence] + token % call.num_new;
    const int64_t window = call.shape.window;
    kernels.row({.head = attention_head(call.shape),
                 .query = call.qkv + token * call.qkv_stride + head * dim,
                 .keys = call.keys(sequence, head / call.group),
                 .values = call.values(sequence, head / call.group),
                 .out = out,
                 .first = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0,
                 .last = position,
                 .slope = call.slope(head)});
  });
}

template <class Value>
void attend_tiles(const CachedCall<Value>& call, const AttentionKernels& kernels, int threads) {
  const int64_t dim = call.shape.head_dim;
  ScratchCursor thread;
  AttentionForwardTask sizes{.head = attention_head(call.shape)};
  take_forward_buffers(thread, kernels, sizes);
  // Once a prompt, not once a token: the op has no scratch of its own.
  const Scratch scratch("attention_cached", {}, threads * thread.used());
  const int64_t num_tiles = ceil_div(call.num_new, kAttentionTile);
  parallel_blocks(threads, call.batch * call.shape.num_heads * num_tiles, [&](int64_t index) {
    const int64_t tile = index % num_tiles;
    const int64_t head = index / num_tiles % call.shape.num_heads;
    if (!call.shape.gates.is_on(static_cast<int>(head))) return;
    const int64_t sequence = index / num_tiles / call.shape.num_heads;
    const int64_t token = sequence * call.num_new + tile * kAttentionTile;
    const float slope = call.slope(head);
    AttentionForwardTask task{.head = attention_head(call.shape),
                              .queries = {call.qkv + token * call.qkv_stride + head * dim, call.qkv_stride},
                              .keys = call.keys(sequence, head / call.group),
                              .values = call.values(sequence, head / call.group),
                              .out = {call.out + token * call.out_stride + head * dim, call.out_stride},
                              .slopes = &slope,
                              .first_position = call.past_lengths[sequence] + tile * kAttentionTile,
                              .num_queries = std::min<int64_t>(kAttentionTile, call.num_new - tile * kAttentionTile)};
    ScratchCursor cursor(scratch.data() + omp_get_thread_num() * thread.used());
    take_forward_buffers(cursor, kernels, task);
    kernels.forward(task);
  });
  zero_off_heads(threads, call.shape, call.out, call.batch * call.num_new, call.out_stride);
}

}  // namespace

void CpuBackend::run(const op::AttentionCached<Tensor>& op) {
  const auto* past_lengths = op.past_lengths.as<int32_t>();
  const int64_t num_new = op.qkv.rows() / op.batch;
  for (int sequence = 0; sequence < op.batch; ++sequence) {
    const int64_t filled = past_lengths[sequence] + num_new;
    if (past_lengths[sequence] < 0 || filled > op.capacity) {
      throw InternalError("attention_cached", "cache has too few rows", filled, op.capacity);
    }
  }
  const AttentionKernels kernels = attention_kernels(isa_, op.qkv.dtype);
  visit_float_dtype("attention_cached", op.qkv.dtype, [&](auto tag) {
    const CachedCall<typename decltype(tag)::type> call(op);
    append(call);
    if (num_new >= kTileTokens || attention_head(op.shape).padded_dim > kAttentionMaxRowDim) {
      attend_tiles(call, kernels, threads_);
    } else {
      attend_rows(call, kernels, threads_);
    }
  });
}

}  // namespace litespark::cpu
