// SPDX-License-Identifier: Apache-2.0
// Contract checks of the optimizer phase.
#include "core/checked.h"
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::GradientSquareSum<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("gradient", op.gradient, {DType::kF32});
  check.dtype("partials", op.partials, {DType::kF64});
  check.room("partials", op.partials, ceil_div(op.gradient.num_elements(), op::kSquareSumBlock));
  check.step_state("state", op.state);
}

void check_contract(const op::StepDecision<Tensor>& op) {
  const OpCheck check(op.kName);
  check.step_state("state", op.state);
  check.that(op.beta1 >= 0 && op.beta1 < 1 && op.beta2 >= 0 && op.beta2 < 1, "a beta is not within [0, 1)");
}

void check_contract(const op::AdamW<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("master", op.master, {DType::kF32});
  const int64_t size = op.master.num_elements();
  const std::pair<std::string_view, const Tensor*> vectors[] = {
      {"first_moment", &op.first_moment}, {"second_moment", &op.second_moment}, {"gradient", &op.gradient}};
  for (const auto& [name, tensor] : vectors) {
    check.dtype(name, *tensor, {DType::kF32});
    check.elements(name, *tensor, size);
  }
  if (op.weight.has_value()) {
    check.dtype("weight", op.weight, {DType::kBF16});
    check.elements("weight", op.weight, size);
  }
  check.step_state("state", op.state);
}

void check_contract(const op::Convert<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("x", op.x);
  check.floating("out", op.out);
  check.elements("out", op.out, op.x.num_elements());
}

}  // namespace litespark
