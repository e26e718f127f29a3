// SPDX-License-Identifier: Apache-2.0
#include "spec/llama_emitter.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "spec/weight_packing.h"

namespace litespark {

LlamaEmitter::LlamaEmitter(Program& program, const BackendSizes& sizes, Tape& tape, const BatchTensors& batch,
                           bool accumulate)
    : program_(program),
      config_(program.rank_config),
      sizes_(sizes),
      tape_(tape),
      batch_(batch),
      accumulate_(accumulate),
      chunk_{.layers = program.layers.front()} {}

const ParamTensors& LlamaEmitter::param(ParamRole role, int64_t layer) const {
  const auto index = program_.params.find(role, layer);
  if (!index) throw InternalError("llama", "parameter missing", static_cast<int>(role), "a row of the table");
  return program_.param_tensors[static_cast<size_t>(*index)];
}

std::string LlamaEmitter::layer_name(int64_t layer, std::string_view name) const {
  return tape_.phase() + stage_ + ".layers." + std::to_string(layer) + "." + std::string(name);
}

TensorId LlamaEmitter::temporary(const std::string& name, DType dtype, Shape shape, Owner owner) {
  return program_.tensors.add(
      {.name = name, .dtype = dtype, .shape = shape, .owner = owner, .storage = Storage::kArena});
}

TensorId LlamaEmitter::scratch(int64_t bytes) {
  if (bytes <= 0) return {};
  return temporary(tape_.phase() + ".scratch", DType::kU8, {bytes}, Owner::kScratch);
}

op::AttentionShape LlamaEmitter::attention_shape(int64_t layer) const {
  const ModelConfig& config = config_;
  const BatchShape& batch = program_.options.batch;
  return {.num_heads = static_cast<int>(config.num_attention_heads),
          .num_kv_heads = static_cast<int>(config.num_key_value_heads),
          .head_dim = static_cast<int>(config.head_dim),
          .window = static_cast<int>(std::min(config.window_of_layer(layer), batch.max_length)),
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))),
          .max_documents = static_cast<int>(batch.max_documents),
          .max_length = static_cast<int>(batch.max_length),
          .uniform = batch.uniform,
          .has_alibi = config.positions == Positions::kAlibi};
}

LlamaEmitter::Linear LlamaEmitter::linear(ParamRole weight, std::optional<ParamRole> bias, int64_t layer) {
  const ParamTensors& tensors = param(weight, layer);
  const auto index = static_cast<size_t>(*program_.params.find(weight, layer));
  const Shape& shape = program_.params.params[index].shape;
  Linear linear{.param = index,
                .weight = program_.packs ? TensorId{} : tensors.weight,
                .packed_forward = tensors.packed_forward,
                .packed_backward = tensors.packed_backward,
                .bias = {},
                .gradient = gradient_of(weight, layer),
                .bias_gradient = {},
                .has_bias = false,
                .in_features = shape[1],
                .out_features = shape[0]};
  if (bias && program_.params.find(*bias, layer)) {
    linear.bias = param(*bias, layer).master;
    linear.bias_gradient = gradient_of(*bias, layer);
    linear.has_bias = true;
  }
  return linear;
}

LinearShape LlamaEmitter::linear_shape(const Linear& linear, int64_t rows) const {
  return {.rows = rows,
          .in_features = linear.in_features,
          .out_features = linear.out_features,
          .compute = program_.options.compute,
          .has_bias = linear.has_bias,
          .weights_packed = program_.packs,
          .gradient = linear.gradient.has_value() ? program_.tensors[linear.gradient].dtype : DType::kF32};
}

bool LlamaEmitter::joins_swiglu(int64_t layer) {
  if (uses_fp8_ || has_tensor_peers() || program_.packs) return false;
  return !linear(kGateUpLinear.weight, kGateUpLinear.bias, layer).has_bias &&
         sizes_.joins_swiglu(program_.options.compute, config_.hidden_size, config_.intermediate_size);
}

/// What a product of this form reads, where the backend packs: the copy that stays, or one made here.
TensorId LlamaEmitter::packed_copy(const Linear& linear, op::PackForm form) {
  const bool is_forward = form == op::PackForm::kForward;
  const TensorId resident = is_forward ? linear.packed_forward : linear.packed_backward;
  if (!program_.packs || resident.has_value()) return resident;
  const std::string name = tape_.phase() + stage_ + "." + program_.params.params[linear.param].name;
  return pack_on_use(tape_, program_, sizes_, linear.param, form,
                     name + (is_forward ? ".packed_forward" : ".packed_backward"));
}

void LlamaEmitter::linear_forward_into(const Linear& linear, TensorId x, TensorId y) {
  const TensorId packed = packed_copy(linear, op::PackForm::kForward);
  LinearShape shape = linear_shape(linear, program_.tensors[x].shape[0]);
  int64_t scratch_bytes = sizes_.matmul_forward_scratch_bytes(shape);
  if (linear.has_bias && !linear.bias.has_value()) {
    shape.has_bias = false;  // the plan is the same on every rank, whoever adds the bias
    scratch_bytes = std::max(scratch_bytes, sizes_.matmul_forward_scratch_bytes(shape));
  }
  tape_.push(op::MatmulForward<TensorId>{.y = y,
                                         .x = x,
                                         .weight = linear.weight,
                                         .packed = packed,
                                         .bias = linear.bias,
                                         .scratch = scratch(scratch_bytes),
                                         .in_features = linear.in_features,
                                         .out_features = linear.out_features});
}

void LlamaEmitter::linear_backward_input_into(const Linear& linear, TensorId dy, TensorId dx) {
  const int64_t rows = program_.tensors[dy].shape[0];
  const TensorId packed = packed_copy(linear, op::PackForm::kBackward);
  tape_.push(op::MatmulBackwardInput<TensorId>{
      .dx = dx,
      .dy = dy,
      .weight = linear.weight,
      .packed = packed,
      .scratch = scratch(sizes_.matmul_backward_input_scratch_bytes(linear_shape(linear, rows))),
      .in_features = linear.in_features,
      .out_features = linear.out_features});
}

void LlamaEmitter::linear_backward_weight(const Linear& linear, TensorId dy, TensorId x, bool accumulate) {
  const int64_t rows = program_.tensors[dy].shape[0];
  tape_.push(op::MatmulBackwardWeight<TensorId>{
      .dweight = linear.gradient,
      .dy = dy,
      .x = x,
      .scratch = scratch(sizes_.matmul_backward_weight_scratch_bytes(linear_shape(linear, rows))),
      .accumulate = accumulate});
}

void LlamaEmitter::linear_backward_bias(const Linear& linear, TensorId dy, bool accumulate) {
  if (!linear.has_bias) return;
  const int64_t rows = program_.tensors[dy].shape[0];
  tape_.push(op::BiasBackward<TensorId>{
      .dbias = linear.bias_gradient,
      .dy = dy,
      .partials = temporary(tape_.phase() + ".bias_partials", DType::kF32,
                            {ceil_div(rows, op::kBiasRowsPerBlock), linear.out_features}, Owner::kScratch),
      .accumulate = accumulate});
}

}  // namespace litespark
