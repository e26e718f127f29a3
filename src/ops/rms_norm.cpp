// SPDX-License-Identifier: Apache-2.0
// Contract checks of RMSNorm and its per-head form.
#include "core/checked.h"
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::RmsNormForward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("x", op.x);
  check.floating("y", op.y);
  const int64_t rows = op.x.rows();
  const int64_t channels = op.x.columns();
  check.positive("columns of x", channels);
  check.matrix("y", op.y, rows, channels);
  check.dtype("rstd", op.rstd, {DType::kF32});
  check.elements("rstd", op.rstd, rows);
  check.dtype("weight", op.weight, {DType::kF32});
  check.elements("weight", op.weight, channels);
  if (op.abs_max.has_value()) {
    check.dtype("abs_max", op.abs_max, {DType::kF32});
    check.elements("abs_max", op.abs_max, 1);
  }
  check.that(op.sum.has_value() == op.delta.has_value(), "sum and delta must be there together or not at all");
  if (!op.delta.has_value()) return;
  check.same_dtype("sum", op.sum, op.x);
  check.matrix("sum", op.sum, rows, channels);
  check.same_dtype("delta", op.delta, op.y);
  check.matrix("delta", op.delta, rows, channels);
}

void check_contract(const op::RmsNormBackward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("x", op.x);
  check.floating("dy", op.dy);
  const int64_t rows = op.x.rows();
  const int64_t channels = op.x.columns();
  check.positive("columns of x", channels);
  check.matrix("dy", op.dy, rows, channels);
  check.same_dtype("dresidual", op.dresidual, op.x);
  check.matrix("dresidual", op.dresidual, rows, channels);
  if (op.dresidual_cast.has_value()) {
    check.same_dtype("dresidual_cast", op.dresidual_cast, op.dy);
    check.matrix("dresidual_cast", op.dresidual_cast, rows, channels);
  }
  check.dtype("rstd", op.rstd, {DType::kF32});
  check.elements("rstd", op.rstd, rows);
  check.dtype("weight", op.weight, {DType::kF32});
  check.elements("weight", op.weight, channels);
  check.dtype("dweight", op.dweight, {DType::kF32});
  check.elements("dweight", op.dweight, channels);
  check.dtype("partials", op.partials, {DType::kF32});
  check.room("partials", op.partials, ceil_div(rows, op::kRmsNormRowsPerBlock) * channels);
  if (op.abs_max.has_value()) {
    check.dtype("abs_max", op.abs_max, {DType::kF32});
    check.elements("abs_max", op.abs_max, 1);
  }
}

void check_contract(const op::HeadNormForward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.positive("num_heads", op.num_heads);
  check.positive("num_kv_heads", op.num_kv_heads);
  check.positive("head_dim", op.head_dim);
  const int64_t normed_heads = op.num_heads + op.num_kv_heads;
  const int64_t width = (normed_heads + op.num_kv_heads) * op.head_dim;
  check.floating("qkv", op.qkv);
  const int64_t rows = op.qkv.rows();
  check.matrix("qkv", op.qkv, rows, width);
  check.same_dtype("out", op.out, op.qkv);
  check.matrix("out", op.out, rows, width);
  check.dtype("rstd", op.rstd, {DType::kF32});
  check.elements("rstd", op.rstd, rows * normed_heads);
  check.dtype("q_weight", op.q_weight, {DType::kF32});
  check.elements("q_weight", op.q_weight, op.head_dim);
  check.dtype("k_weight", op.k_weight, {DType::kF32});
  check.elements("k_weight", op.k_weight, op.head_dim);
}

void check_contract(const op::HeadNormBackward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.positive("num_heads", op.num_heads);
  check.positive("num_kv_heads", op.num_kv_heads);
  check.positive("head_dim", op.head_dim);
  const int64_t normed_heads = op.num_heads + op.num_kv_heads;
  const int64_t width = (normed_heads + op.num_kv_heads) * op.head_dim;
  check.floating("qkv", op.qkv);
  const int64_t rows = op.qkv.rows();
  check.matrix("qkv", op.qkv, rows, width);
  check.same_dtype("dqkv", op.dqkv, op.qkv);
  check.matrix("dqkv", op.dqkv, rows, width);
  check.dtype("rstd", op.rstd, {DType::kF32});
  check.elements("rstd", op.rstd, rows * normed_heads);
  const std::pair<std::string_view, const Tensor*> vectors[] = {{"q_weight", &op.q_weight},
                                                                {"k_weight", &op.k_weight},
                                                                {"dq_weight", &op.dq_weight},
                                                                {"dk_weight", &op.dk_weight}};
  for (const auto& [name, tensor] : vectors) {
    check.dtype(name, *tensor, {DType::kF32});
    check.elements(name, *tensor, op.head_dim);
  }
  check.dtype("partials", op.partials, {DType::kF32});
  check.room("partials", op.partials, ceil_div(rows, op::kRmsNormRowsPerBlock) * 2 * op.head_dim);
}

}  // namespace litespark
