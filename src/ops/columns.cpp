// SPDX-License-Identifier: Apache-2.0
// Contract checks of columns that become a matrix of their own.
#include "core/error.h"
#include "ops/backend.h"
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::TakeColumns<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("x", op.x);
  check.same_dtype("out", op.out, op.x);
  check.matrix("out", op.out, op.x.rows(), op.out.columns());
  check.that(op.first_column >= 0 && op.first_column + op.out.columns() <= op.x.columns(),
             "the columns are not within those of x");
}

void check_contract(const op::JoinColumns<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("left", op.left, {DType::kF32});
  check.dtype("right", op.right, {DType::kF32});
  check.matrix("right", op.right, op.left.rows(), op.right.columns());
  check.floating("out", op.out);
  check.matrix("out", op.out, op.left.rows(), op.left.columns() + op.right.columns());
}

void Backend::run(const op::TakeColumns<Tensor>& op) {
  throw InternalError(op.kName, "has no kernel", name(), "a backend with parts of attention");
}

void Backend::run(const op::JoinColumns<Tensor>& op) {
  throw InternalError(op.kName, "has no kernel", name(), "a backend with parts of attention");
}

}  // namespace litespark
