// SPDX-License-Identifier: Apache-2.0
// Contract checks of the products with SwiGLU inside.
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::GatedForward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("h", op.h);
  check.positive("columns of h", op.h.columns());
  check.same_dtype("gate_up", op.gate_up, op.h);
  check.matrix("gate_up", op.gate_up, op.h.rows(), 2 * op.h.columns());
  check.same_dtype("x", op.x, op.h);
  check.positive("columns of x", op.x.columns());
  check.matrix("x", op.x, op.h.rows(), op.x.columns());
  check.same_dtype("weight", op.weight, op.h);
  check.matrix("weight", op.weight, 2 * op.h.columns(), op.x.columns());
  if (op.scratch.has_value()) check.dtype("scratch", op.scratch, {DType::kU8});
}

void check_contract(const op::GatedBackward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("dout", op.dout);
  check.positive("columns of dout", op.dout.columns());
  check.same_dtype("weight", op.weight, op.dout);
  check.positive("columns of weight", op.weight.columns());
  check.matrix("weight", op.weight, op.dout.columns(), op.weight.columns());
  check.same_dtype("gate_up", op.gate_up, op.dout);
  check.matrix("gate_up", op.gate_up, op.dout.rows(), 2 * op.weight.columns());
  check.same_dtype("dgate_up", op.dgate_up, op.dout);
  check.matrix("dgate_up", op.dgate_up, op.dout.rows(), 2 * op.weight.columns());
  check.dtype("scratch", op.scratch, {DType::kU8});
  check.room("scratch", op.scratch, op::gated_gradient_bytes(op.dout.rows(), op.weight.columns(), op.dout.dtype));
}

}  // namespace litespark
