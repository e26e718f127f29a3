// SPDX-License-Identifier: Apache-2.0
// Contract checks of rotary positions and attention.
#include "core/error.h"
#include "ops/attention_check.h"
#include "ops/backend.h"

namespace litespark {
namespace {

int64_t qkv_width(const op::AttentionShape& shape) {
  return (int64_t{shape.num_heads} + 2 * int64_t{shape.num_kv_heads}) * shape.head_dim;
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
  check_angles(check, op.shape, op.table, op.positions, rows);
  check.that(op.table.has_value() == op.rotated.has_value(), "rotated does not come together with table");
  if (!op.rotated.has_value()) return;
  check.same_dtype("rotated", op.rotated, op.qkv);
  check.matrix("rotated", op.rotated, rows, qkv_width(op.shape));
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
  check_angles(check, op.shape, op.table, op.positions, rows);
  check_abs_max(check, op.abs_max);
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
