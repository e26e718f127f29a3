// SPDX-License-Identifier: Apache-2.0
// Backward attention over packed documents. A task is a range of keys of one key/value head and owns their gradients.
// Where there are many sequences a range is a whole document and the task owns the query gradients as well; where
// there are few, documents are cut, and the ranges' query gradients are added up in order.
#include <omp.h>

#include <algorithm>

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

/// Queries up to here (not included) see some key of the range that ends at `key_end`.
int64_t query_end(const op::AttentionShape& shape, int64_t length, int64_t key_end) {
  return shape.window > 0 ? std::min(length, key_end - 1 + shape.window) : length;
}

struct Layout {
  DocumentSegment* segments = nullptr;
  float* slopes = nullptr;
  float* partials = nullptr;  ///< [ranges of the longest document, N, H D], if documents are cut
  int64_t partial_elements = 0;
  int64_t shared_bytes = 0, thread_bytes = 0, bytes = 0;
};

Layout lay_out(const op::AttentionShape& shape, int64_t num_tokens, const AttentionKernels& kernels, int threads,
               std::byte* base) {
  const int64_t range = range_length(shape, num_tokens);
  Layout layout;
  ScratchCursor shared(base);
  layout.segments = shared.take<DocumentSegment>(max_segments(shape, num_tokens, range));
  layout.partial_elements = num_tokens * shape.num_heads * shape.head_dim;
  const int64_t most_ranges = ceil_div(shape.max_length, range);
  if (most_ranges > 1) layout.partials = shared.take<float>(most_ranges * layout.partial_elements);
  layout.slopes = take_slopes(shared, shape);
  ScratchCursor thread;
  AttentionBackwardTask task{.head = attention_head(shape)};
  take_backward_buffers(thread, kernels, range, task);
  layout.shared_bytes = shared.used();
  layout.thread_bytes = thread.used();
  layout.bytes = layout.shared_bytes + threads * layout.thread_bytes;
  return layout;
}

/// dq of one cut document: its ranges' shares, in order.
template <class Value>
void add_partials(const op::AttentionBackward<Tensor>& op, const Layout& layout, const DocumentSegment& document,
                  int64_t range) {
  const int64_t columns = int64_t{op.shape.num_heads} * op.shape.head_dim;
  for (int64_t i = document.begin; i < document.end; ++i) {
    const int64_t row = document.row + i;
    const int64_t tile_begin = i / kAttentionTile * kAttentionTile;
    Value* to = op.dqkv.as<Value>() + row * op.dqkv.columns();
    int64_t first = 0;
    while (query_end(op.shape, document.length, std::min<int64_t>((first + 1) * range, document.length)) <=
           tile_begin) {
      ++first;
    }
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0;
      for (int64_t piece = first; piece * range <= i; ++piece) {
        sum += layout.partials[piece * layout.partial_elements + row * columns + c];
      }
      store_float(to[c], sum);
    }
  }
}

template <class Value>
AttentionBackwardTask backward_task(const op::AttentionBackward<Tensor>& op, const DocumentSegment& segment,
                                    int64_t kv_head) {
  const op::AttentionShape& shape = op.shape;
  const int64_t dim = shape.head_dim;
  const int64_t stride = op.qkv.columns();
  const int64_t out_stride = shape.num_heads * dim;
  const int group = shape.num_heads / shape.num_kv_heads;
  const int64_t head = kv_head * group;
  const int64_t first = segment.row * stride;
  const int64_t keys = first + (shape.num_heads + kv_head) * dim;
  const int64_t values = keys + shape.num_kv_heads * dim;
  const int64_t out = segment.row * out_stride + head * dim;
  const auto* qkv = op.qkv.as<Value>();
  auto* dqkv = op.dqkv.as<Value>();
  return {.head = attention_head(shape),
          .queries = {qkv + first + head * dim, stride},
          .keys = {qkv + keys, stride},
          .values = {qkv + values, stride},
          .out = {op.out.as<Value>() + out, out_stride},
          .dout = {op.dout.as<Value>() + out, out_stride},
          .dkeys = {dqkv + keys, stride},
          .dvalues = {dqkv + values, stride},
          .dqueries = {dqkv + first + head * dim, stride},
          .log_sum_exp = op.log_sum_exp.as<float>() + head * op.qkv.rows() + segment.row,
          .log_sum_exp_stride = op.qkv.rows(),
          .length = segment.length,
          .key_begin = segment.begin,
          .key_end = segment.end,
          .query_end = query_end(shape, segment.length, segment.end),
          .group = group};
}

template <class Value>
void backward(const op::AttentionBackward<Tensor>& op, const AttentionKernels& kernels, int threads) {
  const op::AttentionShape& shape = op.shape;
  const int64_t num_tokens = op.qkv.rows();
  const auto* offsets = op.offsets.as<int32_t>();
  const int64_t num_documents = *op.num_documents.as<int32_t>();
  const Scratch scratch("attention_backward", op.scratch, lay_out(shape, num_tokens, kernels, threads, nullptr).bytes);
  const Layout layout = lay_out(shape, num_tokens, kernels, threads, scratch.data());
  const int64_t range = range_length(shape, num_tokens);
  const int64_t num_segments = cut_documents(offsets, num_documents, range, layout.segments);
  fill_slopes(shape, layout.slopes);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t index = 0; index < num_segments * shape.num_kv_heads; ++index) {
    const DocumentSegment& segment = layout.segments[index / shape.num_kv_heads];
    const int64_t kv_head = index % shape.num_kv_heads;
    AttentionBackwardTask task = backward_task<Value>(op, segment, kv_head);
    if (shape.has_alibi) task.slopes = layout.slopes + kv_head * task.group;
    if (segment.length > range) {
      task.partial_stride = int64_t{shape.num_heads} * shape.head_dim;
      task.partial = layout.partials + segment.begin / range * layout.partial_elements +
                     segment.row * task.partial_stride + kv_head * task.group * shape.head_dim;
    }
    ScratchCursor cursor(scratch.data() + layout.shared_bytes + omp_get_thread_num() * layout.thread_bytes);
    take_backward_buffers(cursor, kernels, range, task);
    kernels.backward(task);
  }
  parallel_blocks(threads, num_segments, [&](int64_t index) {
    if (layout.segments[index].length > range) add_partials<Value>(op, layout, layout.segments[index], range);
  });
  zero_rows(threads, op.dqkv.as<Value>(), num_documents > 0 ? offsets[num_documents] : 0, num_tokens, op.qkv.columns());
}

}  // namespace

int64_t MatmulLibrary::attention_backward_scratch_bytes(const op::AttentionShape& shape, int64_t num_tokens,
                                                        DType compute) const {
  return lay_out(shape, num_tokens, attention_kernels(isa_, compute), threads_, nullptr).bytes;
}

void CpuBackend::run(const op::AttentionBackward<Tensor>& op) {
  visit_float_dtype("attention_backward", op.qkv.dtype, [&](auto tag) {
    backward<typename decltype(tag)::type>(op, attention_kernels(isa_, op.qkv.dtype), threads_);
  });
}

}  // namespace litespark::cpu
