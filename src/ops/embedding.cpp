// SPDX-License-Identifier: Apache-2.0
// Contract checks of the embedding ops.
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::EmbeddingForward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("table", op.table);
  if (op.remainder.has_value()) {
    check.dtype("table", op.table, {DType::kBF16});
    check.dtype("remainder", op.remainder, {DType::kU16});
    check.elements("remainder", op.remainder, op.table.num_elements());
  }
  check.dtype("ids", op.ids, {DType::kI32});
  check.floating("out", op.out);
  check.positive("columns of table", op.table.columns());
  check.matrix("out", op.out, op.ids.num_elements(), op.table.columns());
  check.that(op.first_id >= 0, "first_id is negative");
  check.that(op.vocab > 0 || op.first_id == 0, "first_id without the vocabulary's size");
  check.step_state("state", op.state);
}

void check_contract(const op::EmbeddingBackward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("dtable", op.dtable, {DType::kF32});
  check.dtype("ids", op.ids, {DType::kI32});
  check.floating("dout", op.dout);
  check.positive("columns of dtable", op.dtable.columns());
  check.matrix("dout", op.dout, op.ids.num_elements(), op.dtable.columns());
  check.dtype("scratch", op.scratch, {DType::kI32});
  check.that(op.first_id >= 0, "first_id is negative");
  check.room("scratch", op.scratch, 2 * op.ids.num_elements() + op.dtable.rows() + 1);
}

}  // namespace litespark
