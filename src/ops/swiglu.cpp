// SPDX-License-Identifier: Apache-2.0
// Contract checks of SwiGLU.
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::SwiGluForward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("h", op.h);
  check.positive("columns of h", op.h.columns());
  check.same_dtype("gate_up", op.gate_up, op.h);
  check.matrix("gate_up", op.gate_up, op.h.rows(), 2 * op.h.columns());
  if (op.abs_max.has_value()) {
    check.dtype("abs_max", op.abs_max, {DType::kF32});
    check.elements("abs_max", op.abs_max, 1);
  }
}

void check_contract(const op::SwiGluBackward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("dh", op.dh);
  check.positive("columns of dh", op.dh.columns());
  check.same_dtype("gate_up", op.gate_up, op.dh);
  check.matrix("gate_up", op.gate_up, op.dh.rows(), 2 * op.dh.columns());
  check.same_dtype("dgate_up", op.dgate_up, op.dh);
  check.matrix("dgate_up", op.dgate_up, op.dh.rows(), 2 * op.dh.columns());
  if (op.abs_max.has_value()) {
    check.dtype("abs_max", op.abs_max, {DType::kF32});
    check.elements("abs_max", op.abs_max, 1);
  }
}

}  // namespace litespark
