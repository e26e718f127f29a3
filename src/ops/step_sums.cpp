// SPDX-License-Identifier: Apache-2.0
// Contract checks of a step's message.
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::PutStepSums<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("sums", op.sums, {DType::kF64});
  check.elements("sums", op.sums, op::kNumStepSums);
  check.step_state("state", op.state);
}

void check_contract(const op::TakeStepSums<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("sums", op.sums, {DType::kF64});
  check.matrix("sums", op.sums, op.sums.rows(), op::kNumStepSums);
  check.positive("ranks", op.sums.rows());
  check.positive("replica_ranks", op.replica_ranks);
  check.that(op.sums.rows() % op.replica_ranks == 0, "replica_ranks does not divide the ranks");
  check.step_state("state", op.state);
}

}  // namespace litespark
