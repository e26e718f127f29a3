// SPDX-License-Identifier: Apache-2.0
// Contract checks of attention's forward on 8-bit floats.
#include "core/op/attention_fp8.h"

#include "ops/attention_check.h"

namespace litespark {
namespace {

void check_number(const OpCheck& check, std::string_view name, const Tensor& tensor) {
  check.dtype(name, tensor, {DType::kF32});
  check.elements(name, tensor, 1);
}

/// The copies of `rows` rows.
void check_copies(const OpCheck& check, const Tensor& queries_keys, const Tensor& values, int64_t rows,
                  int64_t row_features, int64_t value_features) {
  check.dtype("queries_keys", queries_keys, {DType::kE4M3});
  check.matrix("queries_keys", queries_keys, rows, row_features);
  check.dtype("values", values, {DType::kE4M3});
  check.matrix("values", values, rows == 0 ? 0 : value_features, op::fp8_value_columns(rows));
}

}  // namespace

void check_contract(const op::QuantizeQkv<Tensor>& op) {
  const OpCheck check(op.kName);
  check.positive("num_heads", op.num_heads);
  check.positive("num_kv_heads", op.num_kv_heads);
  check.positive("head_dim", op.head_dim);
  const int64_t value_features = int64_t{op.num_kv_heads} * op.head_dim;
  const int64_t row_features = int64_t{op.num_heads} * op.head_dim + value_features;
  check.floating("qkv", op.qkv);
  check.matrix("qkv", op.qkv, op.qkv.rows(), row_features + value_features);
  check_copies(check, op.queries_keys, op.values, op.qkv.rows(), row_features, value_features);
  check_number(check, "abs_max", op.abs_max);
  check_number(check, "scale", op.scale);
  if (op.state.has_value()) check.step_state("state", op.state);
}

void check_contract(const op::AttentionForwardFp8<Tensor>& op) {
  const OpCheck check(op.kName);
  const op::AttentionShape& shape = op.shape;
  check_shape(check, shape);
  check.that(!shape.has_alibi, "ALiBi is not for 8-bit floats");
  check.floating("out", op.out);
  const int64_t rows = op.out.rows();
  check.matrix("out", op.out, rows, int64_t{shape.num_heads} * shape.head_dim);
  check_copies(check, op.queries_keys, op.values, rows, int64_t{shape.num_heads + shape.num_kv_heads} * shape.head_dim,
               int64_t{shape.num_kv_heads} * shape.head_dim);
  check_statistics(check, op.log_sum_exp, shape.num_heads, rows);
  check_number(check, "scale", op.scale);
  check_documents(check, shape, op.offsets, op.num_documents);
  check_uniform(check, shape, rows);
  check_abs_max(check, op.abs_max);
}

}  // namespace litespark
