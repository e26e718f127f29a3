// SPDX-License-Identifier: Apache-2.0
// Backward attention over packed documents. A task is a range of keys of one key/value head and owns their gradients.
// Where there are many sequences a range is a whole document and the task owns the query gradients as well; where
// there are few, documents are cut, and the ranges' query gradients are added up in order.
#include <omp.h>

#include <algorithm>

#include "ops/cpu/abs_max.h"
#include "ops/cpu/attention_documents.h"
#include "ops/cpu/attention_scratch.h"
#include "ops/cpu/cpu_backend_impl.h"
#include "ops/cpu/matmul_library.h"
#include "ops/cpu/scratch.h"

namespace litespark::cpu {
namespace {

/// Shorter ranges repeat the packing of queries too often.
constexpr int64_t kMinRange = 256;
/// Tasks that a batch should yield. Part of the result's definition: it must not depend on the machine.
constexpr int64_t kWantedTasks = 16;

/// Keys of one task; depends on the shape alone, so that bits do not depend on the thread count.
int64_t range_length(const op::AttentionShape& shape, int64_t num_tokens) {
  const int64_t wanted = ceil_div(num_tokens * shape.num_kv_heads, kWantedTasks);
  const int64_t range = std::max(kMinRange, round_up(wanted, kAttentionTile));
  return std::min(range, round_up(std::max(shape.max_length, 1), kAttentionTile));
}

/// Queries of a pair up to here (not included), counted from its first, see some key of the range that ends at
/// `key_end`.
int64_t query_end(const op::AttentionShape& shape, const DocumentPair& pair, int64_t key_end) {
  if (shape.window == 0) return pair.num_queries;
  return std::min<int64_t>(pair.num_queries, key_end - 1 + shape.window - pair.query_offset);
}

struct Layout {
  DocumentSegment* segments = nullptr;
  float* slopes = nullptr;
  OnHeads on;
  float* partials = nullptr;  ///< [ranges of the longest document, N, H D], if documents are cut or are parts
  int64_t partial_elements = 0;
  int64_t shared_bytes = 0, thread_bytes = 0, bytes = 0;
};

/// `in_parts`: query gradients are always partial sums.
Layout lay_out(const op::AttentionShape& shape, int64_t num_tokens, const AttentionKernels& kernels, int threads,
               std::byte* base, bool in_parts = false) {
  const int64_t range = range_length(shape, num_tokens);
  Layout layout;
  ScratchCursor shared(base);
  layout.segments = shared.take<DocumentSegment>(max_segments(shape, num_tokens, range));
  layout.partial_elements = num_tokens * shape.num_heads * shape.head_dim;
  const int64_t longest = in_parts ? std::min<int64_t>(shape.max_length, num_tokens) : shape.max_length;
  const int64_t most_ranges = ceil_div(longest, range);
  if (in_parts || most_ranges > 1) layout.partials = shared.take<float>(most_ranges * layout.partial_elements);
  layout.slopes = take_slopes(shared, shape);
  layout.on = take_on_heads(shared, shape);
  ScratchCursor thread;
  AttentionBackwardTask task{.head = attention_head(shape)};
  take_backward_buffers(thread, kernels, range, task);
  layout.shared_bytes = shared.used();
  layout.thread_bytes = thread.used();
  layout.bytes = layout.shared_bytes + threads * layout.thread_bytes;
  return layout;
}

/// Query gradients of queries [begin, end) of a pair: its ranges' shares, in order. `put(row, column, sum)`.
template <class Put>
void add_partials(const op::AttentionShape& shape, const Layout& layout, const DocumentSegment& queries, int64_t range,
                  const Put& put) {
  const DocumentPair& pair = queries.pair;
  const int64_t columns = int64_t{shape.num_heads} * shape.head_dim;
  for (int64_t i = queries.begin; i < queries.end; ++i) {
    const int64_t row = pair.query_row + i;
    const int64_t tile_begin = i / kAttentionTile * kAttentionTile;
    const int64_t num_keys = pair.begin_together() ? i + 1 : pair.num_keys;
    int64_t first = 0;
    while (first * range < num_keys &&
           query_end(shape, pair, std::min<int64_t>((first + 1) * range, pair.num_keys)) <= tile_begin) {
      ++first;
    }
    for (int64_t c = 0; c < columns; ++c) {
      if (!shape.gates.is_on(static_cast<int>(c / shape.head_dim))) {
        c += shape.head_dim - 1;
        continue;
      }
      float sum = 0;
      for (int64_t piece = first; piece * range < num_keys; ++piece) {
        sum += layout.partials[piece * layout.partial_elements + row * columns + c];
      }
      put(row, c, sum);
    }
  }
}

/// Row 0 of head 0.
template <class Value>
struct BackwardRows {
  const Value* queries = nullptr;
  int64_t query_stride = 0;
  const Value* keys = nullptr;
  const Value* values = nullptr;
  int64_t key_stride = 0;
  const Value* out = nullptr;
  const Value* dout = nullptr;
  const float* log_sum_exp = nullptr;
  int64_t num_rows = 0;  ///< of queries
};

/// What a range of keys reads; `segment` is of keys.
template <class Value>
AttentionBackwardTask backward_task(const op::AttentionShape& shape, const BackwardRows<Value>& rows,
                                    const DocumentSegment& segment, int64_t kv_head) {
  const DocumentPair& pair = segment.pair;
  const int64_t dim = shape.head_dim;
  const int64_t out_stride = shape.num_heads * dim;
  const int group = shape.num_heads / shape.num_kv_heads;
  const int64_t head = kv_head * group;
  const int64_t keys = pair.key_row * rows.key_stride + kv_head * dim;
  const int64_t out = pair.query_row * out_stride + head * dim;
  return {.head = attention_head(shape),
          .queries = {rows.queries + pair.query_row * rows.query_stride + head * dim, rows.query_stride},
          .keys = {rows.keys + keys, rows.key_stride},
          .values = {rows.values + keys, rows.key_stride},
          .out = {rows.out + out, out_stride},
          .dout = {rows.dout + out, out_stride},
          .log_sum_exp = rows.log_sum_exp + head * rows.num_rows + pair.query_row,
          .log_sum_exp_stride = rows.num_rows,
          .length = pair.num_queries,
          .key_begin = segment.begin,
          .key_end = segment.end,
          .query_begin = pair.begin_together() ? segment.begin : 0,
          .query_end = query_end(shape, pair, segment.end),
          .query_offset = pair.query_offset,
          .group = group};
}

/// How a call's work is spread.
struct BackwardWork {
  const op::AttentionShape& shape;
  const AttentionKernels& kernels;
  int threads = 1;
  int64_t range = 0;
  Layout layout;
  std::byte* scratch = nullptr;
};

/// Leaves query gradients in the range's partial sums; `partial_row`: row 0 of the queries in them.
void use_partials(const BackwardWork& work, const DocumentSegment& segment, int64_t partial_row, int64_t kv_head,
                  AttentionBackwardTask& task) {
  task.partial_stride = int64_t{work.shape.num_heads} * work.shape.head_dim;
  task.partial = work.layout.partials + segment.begin / work.range * work.layout.partial_elements +
                 partial_row * task.partial_stride + kv_head * task.group * work.shape.head_dim;
}

/// Runs the tasks that make_task(segment, kv_head) gives.
template <class MakeTask>
void run_tasks(const BackwardWork& work, int64_t num_segments, const MakeTask& make_task) {
  const op::AttentionShape& shape = work.shape;
  const Layout& layout = work.layout;
#pragma omp parallel for schedule(dynamic) num_threads(work.threads)
  for (int64_t index = 0; index < num_segments * shape.num_kv_heads; ++index) {
    const int64_t kv_head = index % shape.num_kv_heads;
    if (layout.on.counts[kv_head] == 0) continue;
    AttentionBackwardTask task = make_task(layout.segments[index / shape.num_kv_heads], kv_head);
    const int64_t head = kv_head * (shape.num_heads / shape.num_kv_heads);
    if (shape.has_alibi) task.slopes = layout.slopes + head;
    task.heads = layout.on.heads + head;
    task.group = layout.on.counts[kv_head];
    ScratchCursor cursor(work.scratch + layout.shared_bytes + omp_get_thread_num() * layout.thread_bytes);
    take_backward_buffers(cursor, work.kernels, work.range, task);
    work.kernels.backward(task);
  }
}

/// Gradients of keys and values that no head reads.
template <class Value>
void zero_idle_keys(int threads, const op::AttentionShape& shape, const OnHeads& on, Value* dqkv, int64_t num_rows) {
  const int64_t stride = int64_t{shape.num_heads + 2 * shape.num_kv_heads} * shape.head_dim;
  for (int64_t kv_head = 0; kv_head < shape.num_kv_heads; ++kv_head) {
    if (on.counts[kv_head] > 0) continue;
    Value* const keys = dqkv + (shape.num_heads + kv_head) * shape.head_dim;
    parallel_ranges(threads, num_rows, kMinRange, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::fill_n(keys + row * stride, shape.head_dim, Value{});
        std::fill_n(keys + shape.num_kv_heads * shape.head_dim + row * stride, shape.head_dim, Value{});
      }
    });
  }
}

template <class Value>
void backward(const op::AttentionBackward<Tensor>& op, const AttentionKernels& kernels, int threads) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_tokens = op.qkv.rows();
  const int64_t stride = op.qkv.columns();
  const int64_t dim = shape.head_dim;
  const auto* offsets = op.offsets.as<int32_t>();
  const int64_t num_documents = *op.num_documents.as<int32_t>();
  const Scratch scratch("attention_backward", op.scratch, lay_out(shape, num_tokens, kernels, threads, nullptr).bytes);
  const BackwardWork work{.shape = shape,
                          .kernels = kernels,
                          .threads = threads,
                          .range = range_length(shape, num_tokens),
                          .layout = lay_out(shape, num_tokens, kernels, threads, scratch.data()),
                          .scratch = scratch.data()};
  const Layout& layout = work.layout;
  const int64_t num_segments = cut_documents(offsets, num_documents, work.range, layout.segments);
  fill_slopes(shape, layout.slopes);
  fill_on_heads(shape, layout.on);
  const Value* keys = op.qkv.as<Value>() + shape.num_heads * dim;
  const BackwardRows<Value> rows{.queries = op.qkv.as<Value>(),
                                 .query_stride = stride,
                                 .keys = keys,
                                 .values = keys + shape.num_kv_heads * dim,
                                 .key_stride = stride,
                                 .out = op.out.as<Value>(),
                                 .dout = op.dout.as<Value>(),
                                 .log_sum_exp = op.log_sum_exp.as<float>(),
                                 .num_rows = num_tokens};
  auto* dqkv = op.dqkv.as<Value>();
  run_tasks(work, num_segments, [&](const DocumentSegment& segment, int64_t kv_head) {
    AttentionBackwardTask task = backward_task(shape, rows, segment, kv_head);
    Value* const first = dqkv + segment.pair.query_row * stride;
    Value* const dkeys = first + (shape.num_heads + kv_head) * dim;
    task.dkeys = {dkeys, stride};
    task.dvalues = {dkeys + shape.num_kv_heads * dim, stride};
    task.dqueries = {first + kv_head * task.group * dim, stride};
    const bool is_cut = segment.pair.num_keys > work.range;
    if (is_cut) use_partials(work, segment, segment.pair.query_row, kv_head, task);
    return task;
  });
  parallel_blocks(threads, num_segments, [&](int64_t index) {
    const DocumentSegment& segment = layout.segments[index];
    if (segment.pair.num_keys <= work.range) return;
    add_partials(shape, layout, segment, work.range,
                 [&](int64_t row, int64_t column, float sum) { store_float(dqkv[row * stride + column], sum); });
  });
  zero_rows(threads, dqkv, num_documents > 0 ? offsets[num_documents] : 0, num_tokens, stride);
  zero_off_heads(threads, shape, dqkv, num_tokens, stride);
  zero_idle_keys(threads, shape, layout.on, dqkv, num_tokens);
}

/// One chunk of keys and one of queries.
template <class Value>
void backward_chunks(const op::AttentionPartBackward<Tensor>& op, const BackwardWork& work,
                     const BackwardRows<Value>& rows, const ChunkPair& chunks) {
  const op::AttentionShape& shape = op.shape;
  const auto* offsets = op.offsets.as<int32_t>();
  const int64_t num_documents = *op.num_documents.as<int32_t>();
  const int64_t dim = shape.head_dim;
  const int64_t columns = op.dkeys_values.columns();
  DocumentSegment* const segments = work.layout.segments;
  int64_t count = 0;
  for_each_shared_document(chunks, offsets, num_documents, shape.window, [&](const DocumentPair& pair) {
    count += cut_pair(pair, pair.num_keys, work.range, segments + count);
  });
  run_tasks(work, count, [&](const DocumentSegment& segment, int64_t kv_head) {
    AttentionBackwardTask task = backward_task(shape, rows, segment, kv_head);
    float* const dkeys = op.dkeys_values.as<float>() + segment.pair.key_row * columns + kv_head * dim;
    task.dkey_sums = {dkeys, columns};
    task.dvalue_sums = {dkeys + shape.num_kv_heads * dim, columns};
    use_partials(work, segment, segment.pair.query_row - chunks.query_row, kv_head, task);
    return task;
  });
  count = 0;
  for_each_shared_document(chunks, offsets, num_documents, shape.window, [&](DocumentPair pair) {
    pair.query_row -= static_cast<int32_t>(chunks.query_row);
    count += cut_pair(pair, pair.num_queries, work.range, segments + count);
  });
  const int64_t width = shape.num_heads * dim;
  float* const dqueries = op.dqueries.as<float>() + chunks.query_row * width;
  parallel_blocks(work.threads, count, [&](int64_t index) {
    add_partials(shape, work.layout, segments[index], work.range,
                 [&](int64_t row, int64_t column, float sum) { dqueries[row * width + column] += sum; });
  });
}

template <class Value>
void backward(const op::AttentionPartBackward<Tensor>& op, const AttentionKernels& kernels, int threads) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_rows = op.qkv.rows();
  const int64_t length = num_rows / 2;
  const Scratch scratch("attention_part_backward", op.scratch,
                        lay_out(shape, length, kernels, threads, nullptr, true).bytes);
  const BackwardWork work{.shape = shape,
                          .kernels = kernels,
                          .threads = threads,
                          .range = range_length(shape, length),
                          .layout = lay_out(shape, length, kernels, threads, scratch.data(), true),
                          .scratch = scratch.data()};
  fill_slopes(shape, work.layout.slopes);
  fill_on_heads(shape, work.layout.on);
  zero_rows(threads, op.dkeys_values.as<float>(), 0, num_rows, op.dkeys_values.columns());
  if (op.first) zero_rows(threads, op.dqueries.as<float>(), 0, num_rows, op.dqueries.columns());
  const auto* keys = op.keys_values.as<Value>();
  const BackwardRows<Value> rows{.queries = op.qkv.as<Value>(),
                                 .query_stride = op.qkv.columns(),
                                 .keys = keys,
                                 .values = keys + int64_t{shape.num_kv_heads} * shape.head_dim,
                                 .key_stride = op.keys_values.columns(),
                                 .out = op.out.as<Value>(),
                                 .dout = op.dout.as<Value>(),
                                 .log_sum_exp = op.log_sum_exp.as<float>(),
                                 .num_rows = num_rows};
  for_each_chunk_pair(op.part, num_rows,
                      [&](const ChunkPair& chunks) { backward_chunks<Value>(op, work, rows, chunks); });
}

}  // namespace

int64_t MatmulLibrary::attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                                        DType compute) const {
  return lay_out(shape, num_tokens, attention_kernels(isa_, compute), threads_, nullptr).bytes;
}

int64_t MatmulLibrary::attention_part_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_rows,
                                                             DType compute) const {
  return lay_out(shape, num_rows / 2, attention_kernels(isa_, compute), threads_, nullptr, true).bytes;
}

void CpuBackend::run(const op::AttentionPartBackward<Tensor>& op) {
  visit_float_dtype("attention_part_backward", op.qkv.dtype, [&](auto tag) {
    backward<typename decltype(tag)::type>(op, attention_kernels(isa_, op.qkv.dtype), threads_);
  });
}

void CpuBackend::run(const op::AttentionBackward<Tensor>& op) {
  visit_float_dtype("attention_backward", op.qkv.dtype, [&](auto tag) {
    backward<typename decltype(tag)::type>(op, attention_kernels(isa_, op.qkv.dtype), threads_);
  });
  if (op.table.has_value()) return run(op::rotation_of(op, op.dqkv, true));
  raise_abs_max(threads_, op.abs_max, op.dqkv);
}

}  // namespace litespark::cpu
