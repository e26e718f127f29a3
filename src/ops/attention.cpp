// SPDX-License-Identifier: Apache-2.0
// Contract checks of rotary positions and attention.
#include "core/error.h"
#include "ops/backend.h"
#include "ops/op_check.h"

namespace litespark {
namespace {

void check_shape(const OpCheck& check, const op::AttentionShape& shape) {
  check.positive("num_heads", shape.num_heads);
  check.positive("num_kv_heads", shape.num_kv_heads);
  check.positive("head_dim", shape.head_dim);
  check.that(shape.num_heads % shape.num_kv_heads == 0, "num_kv_heads does not divide num_heads");
  check.that(shape.window >= 0, "window is negative");
  for (int head = shape.num_heads; head < op::HeadGates::kMostHeads; ++head) {
    check.that(shape.gates.is_on(head), "gates switch off a head that is not there");
  }
}

int64_t qkv_width(const op::AttentionShape& shape) {
  return (int64_t{shape.num_heads} + 2 * int64_t{shape.num_kv_heads}) * shape.head_dim;
}

/// Documents of the batch: offsets, their count, and the promise of `uniform`.
void check_documents(const OpCheck& check, const op::AttentionShape& shape, const Tensor& offsets,
                     const Tensor& num_documents) {
  check.positive("max_documents", shape.max_documents);
  check.positive("max_length", shape.max_length);
  check.dtype("offsets", offsets, {DType::kI32});
  check.elements("offsets", offsets, int64_t{shape.max_documents} + 1);
  check.dtype("num_documents", num_documents, {DType::kI32});
  check.elements("num_documents", num_documents, 1);
}

void check_uniform(const OpCheck& check, const op::AttentionShape& shape, int64_t rows) {
  check.that(!shape.uniform || int64_t{shape.max_documents} * shape.max_length == rows,
             "uniform documents do not add up to the rows of qkv");
}

void check_statistics(const OpCheck& check, const Tensor& log_sum_exp, int64_t num_heads, int64_t rows) {
  check.dtype("log_sum_exp", log_sum_exp, {DType::kF32});
  check.matrix("log_sum_exp", log_sum_exp, rows == 0 ? 0 : num_heads, rows);
}

void check_abs_max(const OpCheck& check, const Tensor& abs_max) {
  if (!abs_max.has_value()) return;
  check.dtype("abs_max", abs_max, {DType::kF32});
  check.elements("abs_max", abs_max, 1);
}

/// What both directions of a part have in common.
template <class Op>
void check_part(const OpCheck& check, const Op& op) {
  check_shape(check, op.shape);
  check.that(!op.shape.gates.any_off(), "gates are not for parts");
  check.floating("qkv", op.qkv);
  const int64_t rows = op.qkv.rows();
  check.matrix("qkv", op.qkv, rows, qkv_width(op.shape));
  check.same_dtype("keys_values", op.keys_values, op.qkv);
  check.matrix("keys_values", op.keys_values, rows, 2 * int64_t{op.shape.num_kv_heads} * op.shape.head_dim);
  check_statistics(check, op.log_sum_exp, op.shape.num_heads, rows);
  check_documents(check, op.shape, op.offsets, op.num_documents);
  check.positive("ranks", op.part.ranks);
  check.that(op.part.query_rank >= 0 && op.part.query_rank < op.part.ranks, "query_rank is none of the ranks");
  check.that(op.part.key_rank >= 0 && op.part.key_rank < op.part.ranks, "key_rank is none of the ranks");
  check.that(rows % 2 == 0, "rows of qkv are not two chunks");
  check_uniform(check, op.shape, rows * op.part.ranks);
  if (op.scratch.has_value()) check.dtype("scratch", op.scratch, {DType::kU8});
}

}  // namespace

void check_contract(const op::Rope<Tensor>& op) {
  const OpCheck check(op.kName);
  check.positive("head_dim", op.head_dim);
  check.that(op.head_dim % 2 == 0, "head_dim is odd");
  check.positive("num_heads_total", op.num_heads_total);
  check.that(op.num_rotated_heads >= 0 && op.num_rotated_heads <= op.num_heads_total,
             "num_rotated_heads is not within num_heads_total");
  check.floating("qkv", op.qkv);
  check.matrix("qkv", op.qkv, op.qkv.rows(), int64_t{op.num_heads_total} * op.head_dim);
  check.dtype("table", op.table, {DType::kF32, DType::kBF16, DType::kF16});
  check.matrix("table", op.table, op.table.rows(), op.head_dim);
  check.dtype("positions", op.positions, {DType::kI32});
  check.elements("positions", op.positions, op.qkv.rows());
  check_abs_max(check, op.abs_max);
}

void check_contract(const op::AttentionForward<Tensor>& op) {
  const OpCheck check(op.kName);
  check_shape(check, op.shape);
  check.floating("qkv", op.qkv);
  const int64_t rows = op.qkv.rows();
  check.matrix("qkv", op.qkv, rows, qkv_width(op.shape));
  check.same_dtype("out", op.out, op.qkv);
  check.matrix("out", op.out, rows, int64_t{op.shape.num_heads} * op.shape.head_dim);
  check_statistics(check, op.log_sum_exp, op.shape.num_heads, rows);
  check_documents(check, op.shape, op.offsets, op.num_documents);
  check_uniform(check, op.shape, rows);
  if (op.scratch.has_value()) check.dtype("scratch", op.scratch, {DType::kU8});
  check_abs_max(check, op.abs_max);
}

void check_contract(const op::AttentionBackward<Tensor>& op) {
  const OpCheck check(op.kName);
  check_shape(check, op.shape);
  check.floating("qkv", op.qkv);
  const int64_t rows = op.qkv.rows();
  const int64_t out_width = int64_t{op.shape.num_heads} * op.shape.head_dim;
  check.matrix("qkv", op.qkv, rows, qkv_width(op.shape));
  check.same_dtype("dqkv", op.dqkv, op.qkv);
  check.matrix("dqkv", op.dqkv, rows, qkv_width(op.shape));
  check.same_dtype("out", op.out, op.qkv);
  check.matrix("out", op.out, rows, out_width);
  check.same_dtype("dout", op.dout, op.qkv);
  check.matrix("dout", op.dout, rows, out_width);
  check_statistics(check, op.log_sum_exp, op.shape.num_heads, rows);
  check_documents(check, op.shape, op.offsets, op.num_documents);
  check_uniform(check, op.shape, rows);
  if (op.scratch.has_value()) check.dtype("scratch", op.scratch, {DType::kU8});
}

void check_contract(const op::AttentionPartForward<Tensor>& op) {
  const OpCheck check(op.kName);
  check_part(check, op);
  check.dtype("out", op.out, {DType::kF32});
  check.matrix("out", op.out, op.qkv.rows(), int64_t{op.shape.num_heads} * op.shape.head_dim);
}

void check_contract(const op::AttentionPartBackward<Tensor>& op) {
  const OpCheck check(op.kName);
  check_part(check, op);
  const int64_t rows = op.qkv.rows();
  const int64_t out_width = int64_t{op.shape.num_heads} * op.shape.head_dim;
  check.same_dtype("out", op.out, op.qkv);
  check.matrix("out", op.out, rows, out_width);
  check.same_dtype("dout", op.dout, op.qkv);
  check.matrix("dout", op.dout, rows, out_width);
  check.dtype("dqueries", op.dqueries, {DType::kF32});
  check.matrix("dqueries", op.dqueries, rows, out_width);
  check.dtype("dkeys_values", op.dkeys_values, {DType::kF32});
  check.matrix("dkeys_values", op.dkeys_values, rows, op.keys_values.columns());
}

void check_contract(const op::AttentionCached<Tensor>& op) {
  const OpCheck check(op.kName);
  check_shape(check, op.shape);
  check.positive("batch", op.batch);
  check.positive("capacity", op.capacity);
  check.floating("qkv", op.qkv);
  const int64_t rows = op.qkv.rows();
  check.matrix("qkv", op.qkv, rows, qkv_width(op.shape));
  check.that(rows % op.batch == 0, "rows of qkv are not a multiple of batch");
  check.same_dtype("out", op.out, op.qkv);
  check.matrix("out", op.out, rows, int64_t{op.shape.num_heads} * op.shape.head_dim);
  check.same_dtype("cache", op.cache, op.qkv);
  check.matrix("cache", op.cache, int64_t{op.batch} * op.capacity,
               2 * int64_t{op.shape.num_kv_heads} * op.shape.head_dim);
  check.dtype("past_lengths", op.past_lengths, {DType::kI32});
  check.elements("past_lengths", op.past_lengths, op.batch);
}

void Backend::run(const op::AttentionPartForward<Tensor>& op) {
  throw InternalError(op.kName, "has no kernel", name(), "a backend with parts of attention");
}

void Backend::run(const op::AttentionPartBackward<Tensor>& op) {
  throw InternalError(op.kName, "has no kernel", name(), "a backend with parts of attention");
}

}  // namespace litespark
