// SPDX-License-Identifier: Apache-2.0
// Contract check of bringing the ranks' copies together.
#include "core/checked.h"
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::MeanOfCopies<Tensor>& op) {
  const OpCheck check(op.kName);
  const int64_t size = op.copy.num_elements();
  check.dtype("copy", op.copy, {DType::kF32});
  check.dtype("sum", op.sum, {DType::kF32});
  check.elements("sum", op.sum, size);
  check.positive("ranks", op.ranks);
  check.that(op.state.has_value() == op.partials.has_value(), "state and partials belong together");
  if (!op.state.has_value()) return;
  check.step_state("state", op.state);
  check.dtype("partials", op.partials, {DType::kF64});
  check.room("partials", op.partials, 2 * ceil_div(size, op::kSquareSumBlock));
}

}  // namespace litespark
