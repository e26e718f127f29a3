// SPDX-License-Identifier: Apache-2.0
// Contract checks of the loss ops.
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::CrossEntropy<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("labels", op.labels, {DType::kI32});
  const int64_t rows = op.labels.num_elements();
  check.floating("logits", op.logits);
  check.positive("columns of logits", op.logits.columns());
  check.matrix("logits", op.logits, rows, op.logits.columns());
  check.dtype("losses", op.losses, {DType::kF32});
  check.elements("losses", op.losses, rows);
  if (op.log_sum_exp.has_value()) {
    check.dtype("log_sum_exp", op.log_sum_exp, {DType::kF32});
    check.elements("log_sum_exp", op.log_sum_exp, rows);
  }
  check.step_state("state", op.state);
}

void check_contract(const op::LossReduce<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("labels", op.labels, {DType::kI32});
  check.dtype("losses", op.losses, {DType::kF32});
  check.elements("losses", op.losses, op.labels.num_elements());
  if (op.log_sum_exp.has_value()) {
    check.dtype("log_sum_exp", op.log_sum_exp, {DType::kF32});
    check.elements("log_sum_exp", op.log_sum_exp, op.labels.num_elements());
  }
  check.step_state("state", op.state);
}

}  // namespace litespark
