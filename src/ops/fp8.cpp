// SPDX-License-Identifier: Apache-2.0
// Contract checks of the ops on 8-bit floats.
#include "core/fp8.h"

#include "ops/op_check.h"

namespace litespark {
namespace {

void check_fp8(const OpCheck& check, std::string_view name, const Tensor& tensor) {
  check.dtype(name, tensor, {DType::kE4M3, DType::kE5M2});
}

void check_floats(const OpCheck& check, std::string_view name, const Tensor& tensor, int64_t count) {
  check.dtype(name, tensor, {DType::kF32});
  check.elements(name, tensor, count);
}

/// One number for the whole tensor, or `many`.
void check_one_or(const OpCheck& check, std::string_view name, const Tensor& tensor, int64_t many) {
  check.dtype(name, tensor, {DType::kF32});
  if (tensor.num_elements() != 1) check.elements(name, tensor, many);
}

constexpr int64_t kMatmulMultiple = 16;

}  // namespace

void check_contract(const op::Clear<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("x", op.x, {DType::kF32});
  if (op.state.has_value()) check.step_state("state", op.state);
}

void check_contract(const op::AbsMax<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("x", op.x);
  check.positive("columns of x", op.x.columns());
  check.that(op.abs_max.has_value() || op.column_abs_max.has_value(), "neither abs_max nor column_abs_max is there");
  if (op.abs_max.has_value()) check_one_or(check, "abs_max", op.abs_max, op.x.rows());
  if (op.column_abs_max.has_value()) check_floats(check, "column_abs_max", op.column_abs_max, op.x.columns());
}

void check_contract(const op::QuantizeFp8<Tensor>& op) {
  const OpCheck check(op.kName);
  const int64_t rows = op.x.rows();
  const int64_t columns = op.x.columns();
  check.floating("x", op.x);
  check.positive("columns of x", columns);
  check.that(op.q.has_value() || op.q_transposed.has_value(), "neither q nor q_transposed is there");
  if (op.q.has_value()) {
    check_fp8(check, "q", op.q);
    check.matrix("q", op.q, rows, columns);
  }
  if (op.q_transposed.has_value()) {
    check_fp8(check, "q_transposed", op.q_transposed);
    if (op.q.has_value()) check.dtype("q_transposed", op.q_transposed, {op.q.dtype});
    check.matrix("q_transposed", op.q_transposed, columns, rows);
  }
  const bool by_column = op.column_abs_max.has_value();
  if (op.q.has_value() || !by_column) {
    check_one_or(check, "abs_max", op.abs_max, rows);
    check_floats(check, "scale", op.scale, op.abs_max.num_elements());
  }
  if (by_column) {
    check_floats(check, "column_abs_max", op.column_abs_max, columns);
    check_floats(check, "column_scale", op.column_scale, columns);
  } else if (op.q_transposed.has_value()) {
    check.that(op.abs_max.num_elements() == 1, "a scale a row does not fit a transposed copy");
  }
  if (op.state.has_value()) check.step_state("state", op.state);
}

void check_contract(const op::ScaledMatmul<Tensor>& op) {
  const OpCheck check(op.kName);
  check_fp8(check, "a", op.a);
  check_fp8(check, "b", op.b);
  check.that(op.a.dtype == DType::kE4M3 || op.b.dtype == DType::kE4M3, "one operand must be e4m3");
  const int64_t rows = op.a.rows();
  const int64_t columns = op.b.rows();
  check.positive("columns of a", op.a.columns());
  check.positive("rows of b", columns);
  check.matrix("b", op.b, columns, op.a.columns());
  check.floating("out", op.out);
  check.matrix("out", op.out, rows, columns);
  check_one_or(check, "b_scale", op.b_scale, columns);
  check_floats(check, "a_scale", op.a_scale, op.b_scale.num_elements() == 1 ? 1 : rows);
  check.that(op.a.columns() % kMatmulMultiple == 0 && columns % kMatmulMultiple == 0,
             "columns of a and rows of b must be multiples of 16");
  if (op.bias.has_value()) {
    check_floats(check, "bias", op.bias, columns);
    check.that(op.out.dtype == DType::kBF16, "a bias is for a bf16 output");
  }
  check.that(!op.accumulate || op.out.dtype == DType::kF32, "accumulation is for f32");
  if (op.scratch.has_value()) check.dtype("scratch", op.scratch, {DType::kU8});
}

}  // namespace litespark
