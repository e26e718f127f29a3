// SPDX-License-Identifier: Apache-2.0
// Contract checks of the linear layer's ops.
#include "core/checked.h"
#include "ops/op_check.h"

namespace litespark {
namespace {

/// A weight [O, I] in the compute dtype, or a packed copy in its place.
struct WeightOperand {
  const Tensor& weight;
  const Tensor& packed;
  const Tensor& like;  ///< a tensor of the compute dtype
  int64_t in_features;
  int64_t out_features;
};

void check_weight(const OpCheck& check, const WeightOperand& operand) {
  check.that(operand.weight.has_value() || operand.packed.has_value(), "neither weight nor packed is there");
  if (operand.packed.has_value()) check.dtype("packed", operand.packed, {DType::kU8});
  if (!operand.weight.has_value()) return;
  check.same_dtype("weight", operand.weight, operand.like);
  check.matrix("weight", operand.weight, operand.out_features, operand.in_features);
}

void check_scratch(const OpCheck& check, const Tensor& scratch) {
  if (scratch.has_value()) check.dtype("scratch", scratch, {DType::kU8});
}

}  // namespace

void check_contract(const op::MatmulForward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.positive("in_features", op.in_features);
  check.positive("out_features", op.out_features);
  check.floating("x", op.x);
  check.matrix("x", op.x, op.x.rows(), op.in_features);
  check.same_dtype("y", op.y, op.x);
  check.matrix("y", op.y, op.x.rows(), op.out_features);
  check_weight(check, {.weight = op.weight,
                       .packed = op.packed,
                       .like = op.x,
                       .in_features = op.in_features,
                       .out_features = op.out_features});
  if (op.bias.has_value()) {
    check.dtype("bias", op.bias, {DType::kF32});
    check.elements("bias", op.bias, op.out_features);
  }
  check_scratch(check, op.scratch);
}

void check_contract(const op::MatmulBackwardInput<Tensor>& op) {
  const OpCheck check(op.kName);
  check.positive("in_features", op.in_features);
  check.positive("out_features", op.out_features);
  check.floating("dy", op.dy);
  check.matrix("dy", op.dy, op.dy.rows(), op.out_features);
  check.same_dtype("dx", op.dx, op.dy);
  check.matrix("dx", op.dx, op.dy.rows(), op.in_features);
  check_weight(check, {.weight = op.weight,
                       .packed = op.packed,
                       .like = op.dy,
                       .in_features = op.in_features,
                       .out_features = op.out_features});
  check_scratch(check, op.scratch);
}

void check_contract(const op::MatmulBackwardWeight<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("dy", op.dy);
  check.same_dtype("x", op.x, op.dy);
  check.positive("columns of dy", op.dy.columns());
  check.positive("columns of x", op.x.columns());
  check.matrix("x", op.x, op.dy.rows(), op.x.columns());
  check.floating("dweight", op.dweight);
  check.that(op.dweight.dtype == DType::kF32 || (op.dy.dtype == DType::kBF16 && !op.accumulate),
             "a bf16 gradient needs bf16 inputs and is not accumulated");
  check.matrix("dweight", op.dweight, op.dy.columns(), op.x.columns());
  check_scratch(check, op.scratch);
}

void check_contract(const op::BiasBackward<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("dy", op.dy);
  check.positive("columns of dy", op.dy.columns());
  check.dtype("dbias", op.dbias, {DType::kF32});
  check.elements("dbias", op.dbias, op.dy.columns());
  check.dtype("partials", op.partials, {DType::kF32});
  check.room("partials", op.partials, ceil_div(op.dy.rows(), op::kBiasRowsPerBlock) * op.dy.columns());
}

void check_contract(const op::PackWeight<Tensor>& op) {
  const OpCheck check(op.kName);
  check.floating("weight", op.weight);
  check.positive("rows of weight", op.weight.rows());
  if (op.weight.dtype == DType::kBF16) {
    check.dtype("scratch", op.scratch, {DType::kF32});
    check.room("scratch", op.scratch, op.weight.num_elements());
  }
  if (op.remainder.has_value()) {
    check.that(op.weight.dtype == DType::kBF16, "a remainder belongs to a bf16 weight");
    check.dtype("remainder", op.remainder, {DType::kU16});
    check.elements("remainder", op.remainder, op.weight.num_elements());
  }
  check.dtype("packed", op.packed, {DType::kU8});
}

}  // namespace litespark
