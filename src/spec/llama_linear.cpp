// SPDX-License-Identifier: Apache-2.0
// The blocks' linear layers, in the compute dtype or on 8-bit floats. An 8-bit product sums over a contiguous dimension
// of both operands: forward reads x and w, the gradient of x reads dy and w transposed, that of w reads dy and x
// transposed. A tensor is read once and written as both copies; the transposed copy of x is all that backward keeps of
// it. Where x is recomputed, so is its copy, with the scale that forward left: the same bits.
#include "spec/llama_emitter.h"

namespace litespark {
namespace {

TensorId transposed_scale(const Fp8Slot& slot) {
  return slot.column_scale.has_value() ? slot.column_scale : slot.scale;
}

}  // namespace

void LlamaEmitter::use_fp8() {
  uses_fp8_ = true;
  tape_.enter("forward.quantize");
  tape_.push(op::Clear<TensorId>{.x = program_.fp8.abs_max, .state = {}});
}

const Fp8Slot& LlamaEmitter::fp8_slot(Fp8Site site, int64_t layer) const {
  return program_.fp8.layers.at(static_cast<size_t>(layer)).at(static_cast<size_t>(site));
}

/// Attention, or a rotation of its own behind it, measures the gradient of q, k, v where it comes last.
bool LlamaEmitter::is_measured_by_producer(Fp8Site site) const {
  return site != Fp8Site::kQkvGradient || (config_.positions == Positions::kRope && !config_.has_qk_norm);
}

TensorId LlamaEmitter::abs_max_for_producer(Fp8Site site, int64_t layer) const {
  const bool measures = uses_fp8_ && layer >= 0 && program_.options.fp8->scaling == Fp8Scaling::kTensor &&
                        is_measured_by_producer(site) && !is_recomputed(site);
  return measures ? fp8_slot(site, layer).abs_max : TensorId{};
}

LlamaEmitter::Fp8Copies LlamaEmitter::quantize(Fp8Site site, int64_t layer, TensorId x, const CopiesWanted& wanted) {
  const Fp8Slot& slot = fp8_slot(site, layer);
  const Shape shape = program_.tensors[x].shape;
  const DType format = is_gradient(site) ? program_.options.fp8->gradient : DType::kE4M3;
  const std::string name = program_.tensors[x].name + ".fp8";
  Fp8Copies copies{.copy = {}, .transposed = {}, .slot = &slot};
  if (wanted.copy) copies.copy = temporary(name, format, shape);
  if (wanted.transposed) copies.transposed = temporary(name + "_transposed", format, {shape[1], shape[0]});
  const bool is_backward = is_gradient(site) || !stage_.empty();
  tape_.enter(is_backward ? "backward.quantize" : "forward.quantize", layer);
  const bool by_producer = program_.options.fp8->scaling == Fp8Scaling::kTensor && is_measured_by_producer(site);
  if (!by_producer && !is_recomputed(site)) {
    tape_.push(op::AbsMax<TensorId>{.abs_max = slot.abs_max, .column_abs_max = slot.column_abs_max, .x = x});
  }
  tape_.push(op::QuantizeFp8<TensorId>{.q = copies.copy,
                                       .q_transposed = copies.transposed,
                                       .scale = slot.scale,
                                       .column_scale = slot.column_scale,
                                       .x = x,
                                       .abs_max = slot.abs_max,
                                       .column_abs_max = slot.column_abs_max,
                                       .state = is_recomputed(site) ? TensorId{} : program_.state,
                                       .kind = is_gradient(site) ? op::Fp8Kind::kGradient : op::Fp8Kind::kInput});
  return copies;
}

void LlamaEmitter::push_scaled_matmul(op::ScaledMatmul<TensorId> product) {
  const int64_t columns = program_.tensors[product.b].shape[0];
  product.scratch = scratch(sizes_.scaled_matmul_scratch_bytes(columns, product.bias.has_value()));
  tape_.push(product);
}

/// Between tensor-parallel ranks a stretch of rows at a time: of rows that are arriving, or of a sum that leaves.
TensorId LlamaEmitter::project_rows(const Linear& linear, const BlockLinear& kind, TensorId x,
                                    const std::string& name) {
  const RowsUnderWay input = kind.sums_ranks ? RowsUnderWay{.whole = x, .own = x, .calls = {}} : start_gather(x);
  const TensorId y = temporary(name, program_.options.compute, {num_tokens(), linear.out_features});
  RowsUnderWay output = kind.sums_ranks ? sum_of(y) : RowsUnderWay{.whole = y, .own = y, .calls = {}};
  Linear packed = linear;  // once for all stretches
  packed.packed_forward = packed_copy(linear, op::PackForm::kForward);
  for (int64_t s = 0; s < num_stretches(); ++s) {
    await_stretch(input, s);
    linear_forward_into(packed, stretch_of(input.whole, s), stretch_of(y, s));
    if (kind.sums_ranks) start_sum(output, s);
  }
  await_rows(output);
  return output.own;
}

TensorId LlamaEmitter::project(const BlockLinear& kind, int64_t layer, TensorId x, TensorId& transposed) {
  Linear layer_linear = linear(kind.weight, kind.bias, layer);
  if (kind.sums_ranks && program_.options.tensor_rank > 0) layer_linear.bias = {};
  const std::string name = layer_name(layer, kind.output);
  tape_.enter(kind.forward_scope, layer);
  if (!uses_fp8_) return project_rows(layer_linear, kind, x, name);
  // What is computed again in backward need not be kept.
  const bool keeps_transposed = program_.options.recompute == Recompute::kNone || !stage_.empty();
  const Fp8Copies copies = quantize(kind.input, layer, x, {.copy = true, .transposed = keeps_transposed});
  transposed = copies.transposed;
  const Fp8Weight& weight = param(kind.weight, layer).fp8;
  const TensorId y =
      temporary(name, program_.options.compute, {program_.tensors[x].shape[0], layer_linear.out_features});
  tape_.enter(kind.forward_scope, layer);
  push_scaled_matmul({.out = y,
                      .a = copies.copy,
                      .b = weight.copy,
                      .a_scale = copies.slot->scale,
                      .b_scale = weight.slot.scale,
                      .bias = layer_linear.bias,
                      .scratch = {},
                      .is_fast = true});
  return y;
}

LlamaEmitter::OutputGradient LlamaEmitter::output_gradient(const BlockLinear& kind, int64_t layer, TensorId dy) {
  tape_.enter(kind.backward_scope, layer);
  OutputGradient gradient{.values = dy, .own = dy, .rows = {}, .copies = {}};
  if (kind.sums_ranks) {
    gradient.rows = start_gather(dy);
    gradient.values = gradient.rows.whole;
  }
  if (uses_fp8_) gradient.copies = quantize(kind.gradient, layer, dy, {.copy = true, .transposed = true});
  tape_.enter(kind.backward_scope, layer);
  return gradient;
}

/// The input's gradient, between tensor-parallel ranks a stretch of rows at a time: of a gradient that is arriving, or
/// of a sum that leaves.
LlamaEmitter::RowsUnderWay LlamaEmitter::input_gradient_rows(const Linear& linear, const BlockLinear& kind,
                                                             const OutputGradient& dy, const std::string& name) {
  const TensorId dx = temporary(name, program_.options.compute, {num_tokens(), linear.in_features});
  RowsUnderWay rows = kind.sums_ranks ? RowsUnderWay{.whole = dx, .own = dx, .calls = {}} : sum_of(dx);
  Linear packed = linear;  // once for all stretches
  packed.packed_backward = packed_copy(linear, op::PackForm::kBackward);
  for (int64_t s = 0; s < num_stretches(); ++s) {
    await_stretch(dy.rows, s);
    linear_backward_input_into(packed, stretch_of(dy.values, s), stretch_of(dx, s));
    if (!kind.sums_ranks) start_sum(rows, s);
  }
  return rows;
}

TensorId LlamaEmitter::project_backward_input(const BlockLinear& kind, int64_t layer, const OutputGradient& dy) {
  const Linear layer_linear = linear(kind.weight, kind.bias, layer);
  const std::string name = layer_name(layer, kind.input_gradient);
  tape_.enter(kind.backward_scope, layer);
  if (!uses_fp8_) {
    const RowsUnderWay dx = input_gradient_rows(layer_linear, kind, dy, name);
    await_rows(dx);
    return dx.own;
  }
  const Fp8Weight& weight = param(kind.weight, layer).fp8;
  const TensorId dx =
      temporary(name, program_.options.compute, {program_.tensors[dy.values].shape[0], layer_linear.in_features});
  push_scaled_matmul({.out = dx,
                      .a = dy.copies.copy,
                      .b = weight.transposed,
                      .a_scale = dy.copies.slot->scale,
                      .b_scale = transposed_scale(weight.slot),
                      .bias = {},
                      .scratch = {}});
  return dx;
}

/// What follows belongs to the layer again.
void LlamaEmitter::weight_is_finished(const BlockLinear& kind, int64_t layer) {
  reduce_with(kind.weight, layer);
  tape_.enter(kind.backward_scope, layer);
}

void LlamaEmitter::project_backward_weight(const BlockLinear& kind, int64_t layer, const OutputGradient& dy,
                                           const KeptInput& x) {
  const Linear layer_linear = linear(kind.weight, kind.bias, layer);
  tape_.enter(kind.backward_scope, layer);
  if (!uses_fp8_) {
    linear_backward_weight(layer_linear, dy.values, x.values, accumulate_);
    linear_backward_bias(layer_linear, dy.own, accumulate_);
    return weight_is_finished(kind, layer);
  }
  TensorId transposed = x.transposed;
  if (!transposed.has_value()) {
    transposed = quantize(kind.input, layer, x.values, {.copy = false, .transposed = true}).transposed;
    tape_.enter(kind.backward_scope, layer);
  }
  push_scaled_matmul({.out = layer_linear.gradient,
                      .a = dy.copies.transposed,
                      .b = transposed,
                      .a_scale = transposed_scale(*dy.copies.slot),
                      .b_scale = transposed_scale(fp8_slot(kind.input, layer)),
                      .bias = {},
                      .scratch = {},
                      .accumulate = accumulate_});
  linear_backward_bias(layer_linear, dy.own, accumulate_);
  weight_is_finished(kind, layer);
}

/// Both gradients of a layer that reads rows of all ranks. The weight's is made while the sum of the input's leaves.
TensorId LlamaEmitter::project_backward(const BlockLinear& kind, int64_t layer, const OutputGradient& dy,
                                        const KeptInput& x) {
  if (!has_tensor_peers()) {
    project_backward_weight(kind, layer, dy, x);
    return project_backward_input(kind, layer, dy);
  }
  tape_.enter(kind.backward_scope, layer);
  const RowsUnderWay inputs = start_gather(x.values);
  const Linear layer_linear = linear(kind.weight, kind.bias, layer);
  const RowsUnderWay dx = input_gradient_rows(layer_linear, kind, dy, layer_name(layer, kind.input_gradient));
  await_rows(inputs);
  linear_backward_weight(layer_linear, dy.values, inputs.whole, accumulate_);
  linear_backward_bias(layer_linear, dy.own, accumulate_);
  await_rows(dx);
  weight_is_finished(kind, layer);
  return dx.own;
}

}  // namespace litespark
