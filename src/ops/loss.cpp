// SPDX-License-Identifier: Apache-2.0
// Contract checks of the loss ops.
#include "ops/op_check.h"

namespace litespark {
namespace {

/// Losses, log_sum_exp and labels of so many rows.
template <class Op>
void check_rows(const OpCheck& check, const Op& op, int64_t rows) {
  check.dtype("losses", op.losses, {DType::kF32});
  check.elements("losses", op.losses, rows);
  if (!op.log_sum_exp.has_value()) return;
  check.dtype("log_sum_exp", op.log_sum_exp, {DType::kF32});
  check.elements("log_sum_exp", op.log_sum_exp, rows);
}

/// This rank's part of the logits.
template <class Op>
void check_part(const OpCheck& check, const Op& op) {
  check.dtype("labels", op.labels, {DType::kI32});
  check.floating("logits", op.logits);
  check.matrix("logits", op.logits, op.labels.num_elements(), op.logits.columns());
  check.dtype("statistics", op.statistics, {DType::kF32});
  check.that(op.first_id >= 0, "first_id is negative");
  check.that(op.columns >= 0 && op.columns <= op.logits.columns(), "columns are not within the logits");
}

}  // namespace

void check_contract(const op::CrossEntropy<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("labels", op.labels, {DType::kI32});
  const int64_t rows = op.labels.num_elements();
  check.floating("logits", op.logits);
  check.positive("columns of logits", op.logits.columns());
  check.matrix("logits", op.logits, rows, op.logits.columns());
  check_rows(check, op, rows);
  check.step_state("state", op.state);
}

void check_contract(const op::CrossEntropyPart<Tensor>& op) {
  const OpCheck check(op.kName);
  check_part(check, op);
  check.elements("statistics", op.statistics, op.labels.num_elements() * op::kRowStatistics);
}

void check_contract(const op::CrossEntropyJoined<Tensor>& op) {
  const OpCheck check(op.kName);
  check_part(check, op);
  const int64_t rows = op.labels.num_elements();
  check_rows(check, op, rows);
  check.positive("ranks", op.ranks);
  check.elements("statistics", op.statistics, op.ranks * rows * op::kRowStatistics);
  check.that(op.columns == 0 || op.first_id + op.columns <= op.vocab, "vocab is less than this rank's ids");
  check.positive("vocab", op.vocab);
  check.step_state("state", op.state);
}

void check_contract(const op::LossReduce<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("labels", op.labels, {DType::kI32});
  check_rows(check, op, op.labels.num_elements());
  check.step_state("state", op.state);
}

}  // namespace litespark
