// SPDX-License-Identifier: Apache-2.0
// What the contracts of all forms of attention ask of heads, documents and statistics.
#pragma once

#include "ops/op_check.h"

namespace litespark {

inline void check_shape(const OpCheck& check, const op::AttentionShape& shape) {
  check.positive("num_heads", shape.num_heads);
  check.positive("num_kv_heads", shape.num_kv_heads);
  check.positive("head_dim", shape.head_dim);
  check.that(shape.num_heads % shape.num_kv_heads == 0, "num_kv_heads does not divide num_heads");
  check.that(shape.window >= 0, "window is negative");
  for (int head = shape.num_heads; head < op::HeadGates::kMostHeads; ++head) {
    check.that(shape.gates.is_on(head), "gates switch off a head that is not there");
  }
}

/// Documents of the batch: offsets, their count, and the promise of `uniform`.
inline void check_documents(const OpCheck& check, const op::AttentionShape& shape, const Tensor& offsets,
                            const Tensor& num_documents) {
  check.positive("max_documents", shape.max_documents);
  check.positive("max_length", shape.max_length);
  check.dtype("offsets", offsets, {DType::kI32});
  check.elements("offsets", offsets, int64_t{shape.max_documents} + 1);
  check.dtype("num_documents", num_documents, {DType::kI32});
  check.elements("num_documents", num_documents, 1);
}

inline void check_uniform(const OpCheck& check, const op::AttentionShape& shape, int64_t rows) {
  check.that(!shape.uniform || int64_t{shape.max_documents} * shape.max_length == rows,
             "uniform documents do not add up to the rows of qkv");
}

inline void check_statistics(const OpCheck& check, const Tensor& log_sum_exp, int64_t num_heads, int64_t rows) {
  check.dtype("log_sum_exp", log_sum_exp, {DType::kF32});
  check.matrix("log_sum_exp", log_sum_exp, rows == 0 ? 0 : num_heads, rows);
}

/// Rotary angles of `rows` tokens, both tensors or neither.
inline void check_angles(const OpCheck& check, const op::AttentionShape& shape, const Tensor& table,
                         const Tensor& positions, int64_t rows) {
  check.that(table.has_value() == positions.has_value(), "table and positions do not come together");
  if (!table.has_value()) return;
  check.that(shape.head_dim % 2 == 0, "head_dim is odd");
  check.dtype("table", table, {DType::kF32, DType::kBF16, DType::kF16});
  check.matrix("table", table, table.rows(), shape.head_dim);
  check.dtype("positions", positions, {DType::kI32});
  check.elements("positions", positions, rows);
}

inline void check_abs_max(const OpCheck& check, const Tensor& abs_max) {
  if (!abs_max.has_value()) return;
  check.dtype("abs_max", abs_max, {DType::kF32});
  check.elements("abs_max", abs_max, 1);
}

}  // namespace litespark
