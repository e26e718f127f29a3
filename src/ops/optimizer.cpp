// SPDX-License-Identifier: Apache-2.0
// Contract checks of the optimizer phase.
#include "core/checked.h"
#include "ops/op_check.h"

namespace litespark {

void check_contract(const op::GradientSquareSum<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("gradient", op.gradient);
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
  const int64_t size = op.gradient.num_elements();
  const std::pair<std::string_view, const Tensor*> vectors[] = {
      {"first_moment", &op.first_moment}, {"second_moment", &op.second_moment}, {"gradient", &op.gradient}};
  for (const auto& [name, tensor] : vectors) {
    check.floating(name, *tensor);
    check.elements(name, *tensor, size);
  }
  check.same_dtype("second_moment", op.second_moment, op.first_moment);
  const std::pair<std::string_view, std::pair<const Tensor*, DType>> forms[] = {
      {"master", {&op.master, DType::kF32}},
      {"weight", {&op.weight, DType::kBF16}},
      {"remainder", {&op.remainder, DType::kU16}}};
  for (const auto& [name, form] : forms) {
    if (!form.first->has_value()) continue;
    check.dtype(name, *form.first, {form.second});
    check.elements(name, *form.first, size);
  }
  check.that(op.master.has_value() || op.weight.has_value(), "neither master nor weight is there");
  check.that(!op.remainder.has_value() || (op.weight.has_value() && !op.master.has_value()),
             "a remainder belongs to a weight without a master");
  if (op.abs_max.has_value()) {
    check.dtype("abs_max", op.abs_max, {DType::kF32});
    check.elements("abs_max", op.abs_max, 1);
  }
  check.that(op.first_element >= 0 && op.first_element % 4 == 0, "first_element is not a multiple of 4");
  check.step_state("state", op.state);
}

void check_contract(const op::Add<Tensor>& op) {
  const OpCheck check(op.kName);
  check.dtype("sum", op.sum, {DType::kF32});
  check.floating("x", op.x);
  check.elements("sum", op.sum, op.x.num_elements());
}

void check_contract(const op::Convert<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("x", op.x);
  check.floating("out", op.out);
  check.elements("out", op.out, op.x.num_elements());
}

}  // namespace litespark
