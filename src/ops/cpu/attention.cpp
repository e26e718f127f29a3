// SPDX-License-Identifier: Apache-2.0
// Forward attention over packed documents, whole or in parts that context ranks share. A task is a few query tiles of
// the heads of one group and owns what it writes; every query's sums run over key tiles in order, whatever the tasks
// are.
#include "core/op/attention.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/cpu/abs_max.h"
#include "ops/cpu/attention_documents.h"
#include "ops/cpu/attention_scratch.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/matmul_library.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {
namespace {

/// Heads and tiles of one task.
struct TaskSize {
  int heads = 1;
  int64_t queries = kAttentionTile;
};

TaskSize task_size(const op::AttentionShape& shape, int64_t num_tokens, int threads) {
  const int group = shape.num_heads / shape.num_kv_heads;
  TaskSize size{.heads = std::min(group, kAttentionMaxUnits)};
  int64_t tiles = kAttentionMaxUnits / size.heads;
  const int64_t tasks_of_one_tile =
      ceil_div(num_tokens, kAttentionTile) * shape.num_kv_heads * ceil_div(group, size.heads);
  tiles = std::clamp<int64_t>(tasks_of_one_tile / (4 * threads), 1, tiles);
  size.queries = tiles * kAttentionTile;
  return size;
}

struct Layout {
  DocumentSegment* segments = nullptr;
  float* slopes = nullptr;
  OnHeads on;
  int64_t bytes = 0, thread_bytes = 0, shared_bytes = 0;
};

Layout lay_out(const op::AttentionShape& shape, int64_t num_tokens, const AttentionKernels& kernels, int threads,
               std::byte* base) {
  ScratchCursor shared(base);
  ScratchCursor thread;
  AttentionForwardTask task{.head = attention_head(shape)};
  take_forward_buffers(thread, kernels, task);
  Layout layout;
  layout.segments =
      shared.take<DocumentSegment>(max_segments(shape, num_tokens, task_size(shape, num_tokens, threads).queries));
  layout.slopes = take_slopes(shared, shape);
  layout.on = take_on_heads(shared, shape);
  layout.shared_bytes = shared.used();
  layout.thread_bytes = thread.used();
  layout.bytes = layout.shared_bytes + threads * layout.thread_bytes;
  return layout;
}

/// Row 0 of head 0, of queries and what comes out as of keys and values.
template <class Value>
struct ForwardRows {
  const Value* queries = nullptr;
  int64_t query_stride = 0;
  const Value* keys = nullptr;
  const Value* values = nullptr;
  int64_t key_stride = 0;
  Value* out = nullptr;     ///< [rows, H D]; absent where `merged` is there
  float* merged = nullptr;  ///< [rows, H D]
  float* log_sum_exp = nullptr;
  int64_t num_rows = 0;  ///< of queries
};

/// How a call's work is spread.
struct ForwardWork {
  const op::AttentionShape& shape;
  const AttentionKernels& kernels;
  int threads = 1;
  TaskSize size;
  Layout layout;
  std::byte* scratch = nullptr;
};

template <class Value>
AttentionForwardTask forward_task(const op::AttentionShape& shape, const ForwardRows<Value>& rows,
                                  const DocumentSegment& segment, int64_t head, int64_t kv_head) {
  const int64_t dim = shape.head_dim;
  const int64_t out_stride = shape.num_heads * dim;
  const int64_t row = segment.pair.query_row + segment.begin;
  const int64_t key = segment.pair.key_row * rows.key_stride + kv_head * dim;
  const int64_t out = row * out_stride + head * dim;
  AttentionForwardTask task{.head = attention_head(shape),
                            .queries = {rows.queries + row * rows.query_stride + head * dim, rows.query_stride},
                            .keys = {rows.keys + key, rows.key_stride},
                            .values = {rows.values + key, rows.key_stride},
                            .log_sum_exp = rows.log_sum_exp + head * rows.num_rows + row,
                            .log_sum_exp_stride = rows.num_rows,
                            .first_position = segment.pair.query_offset + segment.begin,
                            .num_queries = segment.end - segment.begin,
                            .num_keys = segment.pair.num_keys};
  if (rows.merged != nullptr) {
    task.merged = {rows.merged + out, out_stride};
  } else {
    task.out = {rows.out + out, out_stride};
  }
  return task;
}

template <class Value>
void attend_segments(const ForwardWork& work, const ForwardRows<Value>& rows, int64_t num_segments) {
  const op::AttentionShape& shape = work.shape;
  const Layout& layout = work.layout;
  const int group = shape.num_heads / shape.num_kv_heads;
  const int64_t parts = ceil_div(group, work.size.heads);
  const int64_t tasks_a_segment = shape.num_kv_heads * parts;
#pragma omp parallel for schedule(dynamic) num_threads(work.threads)
  for (int64_t index = 0; index < num_segments * tasks_a_segment; ++index) {
    const DocumentSegment& segment = layout.segments[index / tasks_a_segment];
    const int64_t kv_head = index % tasks_a_segment / parts;
    const int64_t first_in_group = index % parts * work.size.heads;
    const int64_t head = kv_head * group;
    if (first_in_group >= layout.on.counts[kv_head]) continue;
    AttentionForwardTask task = forward_task(shape, rows, segment, head, kv_head);
    if (shape.has_alibi) task.slopes = layout.slopes + head;
    task.heads = layout.on.heads + head + first_in_group;
    task.group = static_cast<int>(std::min<int64_t>(work.size.heads, layout.on.counts[kv_head] - first_in_group));
    ScratchCursor cursor(work.scratch + layout.shared_bytes + omp_get_thread_num() * layout.thread_bytes);
    take_forward_buffers(cursor, work.kernels, task);
    work.kernels.forward(task);
  }
}

/// `num_tokens` of queries that are cut into segments at a time.
ForwardWork forward_work(const op::AttentionShape& shape, int64_t num_tokens, const AttentionKernels& kernels,
                         int threads, const Scratch& scratch) {
  ForwardWork work{.shape = shape,
                   .kernels = kernels,
                   .threads = threads,
                   .size = task_size(shape, num_tokens, threads),
                   .layout = lay_out(shape, num_tokens, kernels, threads, scratch.data()),
                   .scratch = scratch.data()};
  fill_slopes(shape, work.layout.slopes);
  fill_on_heads(shape, work.layout.on);
  return work;
}

template <class Value>
void forward(const op::AttentionForward<Tensor>& op, const AttentionKernels& kernels, int threads) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_tokens = op.qkv.rows();
  const int64_t stride = op.qkv.columns();
  const int64_t dim = shape.head_dim;
  const auto* offsets = op.offsets.as<int32_t>();
  const int64_t num_documents = *op.num_documents.as<int32_t>();
  const auto* qkv = op.qkv.as<Value>();
  auto* out = op.out.as<Value>();
  auto* log_sum_exp = op.log_sum_exp.as<float>();
  const Scratch scratch("attention_forward", op.scratch, lay_out(shape, num_tokens, kernels, threads, nullptr).bytes);
  const ForwardWork work = forward_work(shape, num_tokens, kernels, threads, scratch);
  const Value* keys = qkv + shape.num_heads * dim;
  attend_segments<Value>(work,
                         {.queries = qkv,
                          .query_stride = stride,
                          .keys = keys,
                          .values = keys + shape.num_kv_heads * dim,
                          .key_stride = stride,
                          .out = out,
                          .log_sum_exp = log_sum_exp,
                          .num_rows = num_tokens},
                         cut_documents(offsets, num_documents, work.size.queries, work.layout.segments));
  const int64_t end = num_documents > 0 ? offsets[num_documents] : 0;
  zero_rows(threads, out, end, num_tokens, shape.num_heads * dim);
  zero_off_heads(threads, shape, out, end, shape.num_heads * dim);
  for (int head = 0; head < shape.num_heads; ++head) {
    const int64_t first = shape.gates.is_on(head) ? end : 0;
    std::fill(log_sum_exp + head * num_tokens + first, log_sum_exp + (head + 1) * num_tokens, 0.0f);
  }
}

template <class Value>
void forward(const op::AttentionPartForward<Tensor>& op, const AttentionKernels& kernels, int threads) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_rows = op.qkv.rows();
  const int64_t dim = shape.head_dim;
  const Scratch scratch("attention_part_forward", op.scratch,
                        lay_out(shape, num_rows / 2, kernels, threads, nullptr).bytes);
  const ForwardWork work = forward_work(shape, num_rows / 2, kernels, threads, scratch);
  if (op.first) {
    zero_rows(threads, op.out.as<float>(), 0, num_rows, shape.num_heads * dim);
    std::fill_n(op.log_sum_exp.as<float>(), shape.num_heads * num_rows, -std::numeric_limits<float>::infinity());
  }
  const auto* keys = op.keys_values.as<Value>();
  const ForwardRows<Value> rows{.queries = op.qkv.as<Value>(),
                                .query_stride = op.qkv.columns(),
                                .keys = keys,
                                .values = keys + shape.num_kv_heads * dim,
                                .key_stride = op.keys_values.columns(),
                                .merged = op.out.as<float>(),
                                .log_sum_exp = op.log_sum_exp.as<float>(),
                                .num_rows = num_rows};
  for_each_chunk_pair(op.part, num_rows, [&](const ChunkPair& chunks) {
    int64_t count = 0;
    for_each_shared_document(
        chunks, op.offsets.as<int32_t>(), *op.num_documents.as<int32_t>(), shape.window, [&](const DocumentPair& pair) {
          count += cut_pair(pair, pair.num_queries, work.size.queries, work.layout.segments + count);
        });
    attend_segments<Value>(work, rows, count);
  });
}

}  // namespace

AttentionKernels attention_kernels(CpuIsa isa, DType dtype) {
  switch (isa) {
    case CpuIsa::kAmx:
      if (dtype == DType::kBF16) return attention_kernels_amx();
      [[fallthrough]];
    case CpuIsa::kAvx512Bf16:
      if (dtype == DType::kBF16) return attention_kernels_avx512bf16();
      [[fallthrough]];
    case CpuIsa::kAvx512: return attention_kernels_avx512(dtype);
    case CpuIsa::kAvx2: return attention_kernels_avx2(dtype);
    case CpuIsa::kGeneric: return attention_kernels_generic(dtype);
  }
  return attention_kernels_generic(dtype);
}

int64_t MatmulLibrary::attention_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                                       DType compute) const {
  return lay_out(shape, num_tokens, attention_kernels(isa_, compute), threads_, nullptr).bytes;
}

int64_t MatmulLibrary::attention_part_forward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                            DType compute) const {
  return lay_out(shape, num_rows / 2, attention_kernels(isa_, compute), threads_, nullptr).bytes;
}

void CpuBackend::run(const op::AttentionPartForward<Tensor>& op) {
  visit_float_dtype("attention_part_forward", op.qkv.dtype, [&](auto tag) {
    forward<typename decltype(tag)::type>(op, attention_kernels(isa_, op.qkv.dtype), threads_);
  });
}

void CpuBackend::run(const op::AttentionForward<Tensor>& op) {
  if (op.table.has_value()) {
    std::memcpy(op.rotated.data, op.qkv.data, static_cast<size_t>(op.qkv.bytes()));
    run(op::rotation_of(op, op.rotated, false));
    op::AttentionForward<Tensor> on_copy = op;
    on_copy.qkv = op.rotated;
    on_copy.table = on_copy.positions = on_copy.rotated = {};
    return run(on_copy);
  }
  visit_float_dtype("attention_forward", op.qkv.dtype, [&](auto tag) {
    forward<typename decltype(tag)::type>(op, attention_kernels(isa_, op.qkv.dtype), threads_);
  });
  raise_abs_max(threads_, op.abs_max, op.out);
}

}  // namespace litespark::cpu
