// SPDX-License-Identifier: Apache-2.0
// Forward attention over packed documents. A task is a few query tiles of the heads of one group and owns what it
// writes; every query's sums run over key tiles in order, whatever the tasks are.
#include "core/op/attention.h"

#include <omp.h>

#include <algorithm>

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
  layout.shared_bytes = shared.used();
  layout.thread_bytes = thread.used();
  layout.bytes = layout.shared_bytes + threads * layout.thread_bytes;
  return layout;
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
  const Layout layout = lay_out(shape, num_tokens, kernels, threads, scratch.data());
  const TaskSize size = task_size(shape, num_tokens, threads);
  const int64_t num_segments = cut_documents(offsets, num_documents, size.queries, layout.segments);
  fill_slopes(shape, layout.slopes);
  const int group = shape.num_heads / shape.num_kv_heads;
  const int64_t parts = ceil_div(group, size.heads);
  const int64_t tasks_a_segment = shape.num_kv_heads * parts;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t index = 0; index < num_segments * tasks_a_segment; ++index) {
    const DocumentSegment& segment = layout.segments[index / tasks_a_segment];
    const int64_t kv_head = index % tasks_a_segment / parts;
    const int64_t first_in_group = index % parts * size.heads;
    const int64_t head = kv_head * group + first_in_group;
    const int64_t row = segment.row + segment.begin;
    const Value* keys = qkv + segment.row * stride + (shape.num_heads + kv_head) * dim;
    AttentionForwardTask task{.head = attention_head(shape),
                              .queries = {qkv + row * stride + head * dim, stride},
                              .keys = {keys, stride},
                              .values = {keys + shape.num_kv_heads * dim, stride},
                              .out = {out + (row * shape.num_heads + head) * dim, shape.num_heads * dim},
                              .log_sum_exp = log_sum_exp + head * num_tokens + row,
                              .log_sum_exp_stride = num_tokens,
                              .slopes = shape.has_alibi ? layout.slopes + head : nullptr,
                              .first_position = segment.begin,
                              .num_queries = segment.end - segment.begin,
                              .group = static_cast<int>(std::min<int64_t>(size.heads, group - first_in_group))};
    ScratchCursor cursor(scratch.data() + layout.shared_bytes + omp_get_thread_num() * layout.thread_bytes);
    take_forward_buffers(cursor, kernels, task);
    kernels.forward(task);
  }
  const int64_t end = num_documents > 0 ? offsets[num_documents] : 0;
  zero_rows(threads, out, end, num_tokens, shape.num_heads * dim);
  for (int64_t head = 0; head < shape.num_heads; ++head) {
    std::fill(log_sum_exp + head * num_tokens + end, log_sum_exp + (head + 1) * num_tokens, 0.0f);
  }
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

void CpuBackend::run(const op::AttentionForward<Tensor>& op) {
  visit_float_dtype("attention_forward", op.qkv.dtype, [&](auto tag) {
    forward<typename decltype(tag)::type>(op, attention_kernels(isa_, op.qkv.dtype), threads_);
  });
}

}  // namespace litespark::cpu
