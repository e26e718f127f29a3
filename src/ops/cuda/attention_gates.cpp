// SPDX-License-Identifier: Apache-2.0
// Zeros of heads that are off. No block is scheduled for them, so their columns are cleared by the copy engine's fill,
// a run of neighbouring heads at a time.
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/check.h"

namespace litespark::cuda {
namespace {

/// Calls body(first, count) for each run of neighbours among `size` of which is_off holds.
template <class IsOff, class Body>
void for_each_run(int size, const IsOff& is_off, const Body& body) {
  for (int first = 0; first < size; ++first) {
    if (!is_off(first)) continue;
    int end = first + 1;
    while (end < size && is_off(end)) ++end;
    body(first, end - first);
    first = end;
  }
}

/// A matrix of heads in rows of `row_bytes`.
struct HeadMatrix {
  void* data = nullptr;
  int64_t row_bytes = 0;
  int64_t head_bytes = 0;
  int64_t rows = 0;
};

void clear_heads(const HeadMatrix& matrix, int first, int count, const DeviceContext& context) {
  check(cudaMemset2DAsync(static_cast<std::byte*>(matrix.data) + first * matrix.head_bytes,
                          static_cast<size_t>(matrix.row_bytes), 0, static_cast<size_t>(count * matrix.head_bytes),
                          static_cast<size_t>(matrix.rows), context.stream),
        "attention");
}

}  // namespace

void clear_off_heads(const op::AttentionShape& shape, const Tensor& matrix, const DeviceContext& context) {
  if (!shape.gates.any_off() || matrix.rows() == 0) return;
  const HeadMatrix heads{.data = matrix.data,
                         .row_bytes = matrix.columns() * dtype_bytes(matrix.dtype),
                         .head_bytes = shape.head_dim * dtype_bytes(matrix.dtype),
                         .rows = matrix.rows()};
  const auto is_off = [&](int head) { return !shape.gates.is_on(head); };
  for_each_run(shape.num_heads, is_off, [&](int first, int count) { clear_heads(heads, first, count, context); });
}

void clear_off_statistics(const op::AttentionShape& shape, const Tensor& log_sum_exp, const DeviceContext& context) {
  if (!shape.gates.any_off()) return;
  const int64_t head_bytes = log_sum_exp.columns() * dtype_bytes(log_sum_exp.dtype);
  const auto is_off = [&](int head) { return !shape.gates.is_on(head); };
  for_each_run(shape.num_heads, is_off, [&](int first, int count) {
    check(cudaMemsetAsync(static_cast<std::byte*>(log_sum_exp.data) + first * head_bytes, 0,
                          static_cast<size_t>(count * head_bytes), context.stream),
          "attention");
  });
}

void clear_off_gradients(const op::AttentionShape& shape, const Tensor& dqkv, const DeviceContext& context) {
  if (!shape.gates.any_off() || dqkv.rows() == 0) return;
  clear_off_heads(shape, dqkv, context);
  const HeadMatrix heads{.data = dqkv.data,
                         .row_bytes = dqkv.columns() * dtype_bytes(dqkv.dtype),
                         .head_bytes = shape.head_dim * dtype_bytes(dqkv.dtype),
                         .rows = dqkv.rows()};
  const int group = shape.num_heads / shape.num_kv_heads;
  const auto is_idle = [&](int kv_head) { return shape.gates.num_on(kv_head * group, group) == 0; };
  for_each_run(shape.num_kv_heads, is_idle, [&](int first, int count) {
    clear_heads(heads, shape.num_heads + first, count, context);
    clear_heads(heads, shape.num_heads + shape.num_kv_heads + first, count, context);
  });
}

}  // namespace litespark::cuda
