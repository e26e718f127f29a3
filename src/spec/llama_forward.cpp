// SPDX-License-Identifier: Apache-2.0
// The forward pass: embedding -> L x (norm, attention, norm, SwiGLU) -> norm -> head, one op a step.
#include "spec/llama_emitter.h"

namespace litespark {

// 1. Normalise the stream entering the block; the previous block's MLP output is added on the way.
void LlamaEmitter::attention_norm(BlockActivations& block, int64_t layer, TensorId stream, TensorId delta) {
  const int64_t hidden = config_.hidden_size;
  block.attention_normed =
      temporary(layer_name(layer, "attention_normed"), program_.options.compute, {stream_rows(), hidden});
  block.attention_rstd = temporary(layer_name(layer, "attention_rstd"), DType::kF32, {stream_rows()});
  if (delta.has_value()) {
    block.input = temporary(layer_name(layer, "input"), program_.options.residual, {stream_rows(), hidden});
  } else {
    block.input = stream;
  }
  tape_.enter("forward.norm", layer);
  tape_.push(op::RmsNormForward<TensorId>{.y = block.attention_normed,
                                          .rstd = block.attention_rstd,
                                          .sum = delta.has_value() ? block.input : TensorId{},
                                          .x = stream,
                                          .delta = delta,
                                          .weight = param(ParamRole::kAttentionNorm, layer).master,
                                          .abs_max = abs_max_for_producer(Fp8Site::kQkvInput, layer),
                                          .eps = static_cast<float>(config_.rms_norm_eps)});
}

// 2. Queries, keys and values in one matmul; 3. head norms where the family has them; 4. rotary positions, which
// ALiBi's attention does without.
void LlamaEmitter::project_and_rotate(BlockActivations& block, int64_t layer) {
  const ModelConfig& config = config_;
  block.qkv = project(kQkvLinear, layer, block.attention_normed, block.attention_normed_transposed);
  tape_.enter("forward.rope", layer);
  if (config.has_qk_norm) norm_heads(block, layer);
  if (config.positions != Positions::kRope) return;
  op::Rope<TensorId> rope = rotation(block.qkv);
  // What is rotated a second time was measured the first time.
  if (uses_fp8_attention_ && stage_.empty()) {
    rope.abs_max = program_.fp8.attention.at(static_cast<size_t>(layer)).abs_max;
  }
  tape_.push(rope);
}

op::Rope<TensorId> LlamaEmitter::rotation(TensorId qkv) const {
  return {.qkv = qkv,
          .table = program_.rope_table,
          .positions = batch_.positions,
          .abs_max = {},
          .num_rotated_heads = static_cast<int>(config_.num_attention_heads + config_.num_key_value_heads),
          .num_heads_total = static_cast<int>(config_.num_attention_heads + 2 * config_.num_key_value_heads),
          .head_dim = static_cast<int>(config_.head_dim)};
}

void LlamaEmitter::norm_heads(BlockActivations& block, int64_t layer) {
  const ModelConfig& config = config_;
  block.qkv_projected = block.qkv;
  block.qkv =
      temporary(layer_name(layer, "qkv_normed"), program_.options.compute, {num_tokens(), config.qkv_features()});
  block.head_rstd = temporary(layer_name(layer, "head_rstd"), DType::kF32,
                              {num_tokens(), config.num_attention_heads + config.num_key_value_heads});
  tape_.push(op::HeadNormForward<TensorId>{.out = block.qkv,
                                           .rstd = block.head_rstd,
                                           .qkv = block.qkv_projected,
                                           .q_weight = param(ParamRole::kQueryNorm, layer).master,
                                           .k_weight = param(ParamRole::kKeyNorm, layer).master,
                                           .num_heads = static_cast<int>(config.num_attention_heads),
                                           .num_kv_heads = static_cast<int>(config.num_key_value_heads),
                                           .head_dim = static_cast<int>(config.head_dim),
                                           .eps = static_cast<float>(config.rms_norm_eps)});
}

// 5. Causal attention inside each document, or against what a sequence said before.
void LlamaEmitter::attend(BlockActivations& block, int64_t layer) {
  if (!batch_.offsets.has_value()) {
    attend_to_cache(block, layer);
    return;
  }
  if (has_context_peers()) return attend_in_parts(block, layer);
  const op::AttentionShape shape = attention_shape(layer);
  block.attended =
      temporary(layer_name(layer, "attended"), program_.options.compute, {num_tokens(), config_.attention_features()});
  block.log_sum_exp = temporary(layer_name(layer, "log_sum_exp"), DType::kF32, {shape.num_heads, num_tokens()});
  if (uses_fp8_attention_) return attend_fp8(block, layer);
  tape_.enter("forward.attention", layer);
  tape_.push(op::AttentionForward<TensorId>{
      .out = block.attended,
      .log_sum_exp = block.log_sum_exp,
      .qkv = block.qkv,
      .offsets = batch_.offsets,
      .num_documents = batch_.num_documents,
      .scratch = scratch(sizes_.attention_forward_scratch_bytes(shape, num_tokens(), program_.options.compute)),
      .abs_max = abs_max_for_producer(Fp8Site::kOutputInput, layer),
      .shape = shape});
}

void LlamaEmitter::use_fp8_attention() {
  uses_fp8_attention_ = true;
  tape_.enter("forward.quantize");
  tape_.push(op::Clear<TensorId>{.x = program_.fp8.attention_abs_max, .state = {}});
}

// On 8-bit copies, which nobody reads again: backward takes q, k and v as they are.
void LlamaEmitter::attend_fp8(BlockActivations& block, int64_t layer) {
  const Fp8Slot& slot = program_.fp8.attention.at(static_cast<size_t>(layer));
  const op::AttentionShape shape = attention_shape(layer);
  const TensorId queries_keys =
      temporary(layer_name(layer, "queries_keys.fp8"), DType::kE4M3,
                {num_tokens(), int64_t{shape.num_heads + shape.num_kv_heads} * shape.head_dim});
  const TensorId values =
      temporary(layer_name(layer, "values.fp8"), DType::kE4M3,
                {int64_t{shape.num_kv_heads} * shape.head_dim, op::fp8_value_columns(num_tokens())});
  tape_.enter(stage_.empty() ? "forward.quantize" : "backward.quantize", layer);
  tape_.push(op::QuantizeQkv<TensorId>{.queries_keys = queries_keys,
                                       .values = values,
                                       .scale = slot.scale,
                                       .qkv = block.qkv,
                                       .abs_max = slot.abs_max,
                                       .state = stage_.empty() ? program_.state : TensorId{},
                                       .num_heads = shape.num_heads,
                                       .num_kv_heads = shape.num_kv_heads,
                                       .head_dim = shape.head_dim});
  tape_.enter("forward.attention", layer);
  tape_.push(op::AttentionForwardFp8<TensorId>{.out = block.attended,
                                               .log_sum_exp = block.log_sum_exp,
                                               .queries_keys = queries_keys,
                                               .values = values,
                                               .scale = slot.scale,
                                               .offsets = batch_.offsets,
                                               .num_documents = batch_.num_documents,
                                               .abs_max = abs_max_for_producer(Fp8Site::kOutputInput, layer),
                                               .shape = shape});
}

void LlamaEmitter::attend_to_cache(BlockActivations& block, int64_t layer) {
  const GenerationShape& generation = *program_.options.generation;
  op::AttentionShape shape = attention_shape(layer);
  shape.window = static_cast<int>(config_.window_of_layer(layer));
  block.attended =
      temporary(layer_name(layer, "attended"), program_.options.compute, {num_tokens(), config_.attention_features()});
  tape_.enter("forward.attention", layer);
  tape_.push(op::AttentionCached<TensorId>{.out = block.attended,
                                           .cache = program_.generation.caches[static_cast<size_t>(layer)],
                                           .qkv = block.qkv,
                                           .past_lengths = program_.generation.past_lengths,
                                           .shape = shape,
                                           .batch = static_cast<int>(generation.sequences),
                                           .capacity = static_cast<int>(generation.capacity)});
}

// 6. Back to the width of the stream.
TensorId LlamaEmitter::project_output(BlockActivations& block, int64_t layer) {
  return project(kOutputLinear, layer, block.attended, block.attended_transposed);
}

// 7. Add attention's output to the stream and normalise the sum for the MLP.
void LlamaEmitter::mlp_norm(BlockActivations& block, int64_t layer, TensorId stream, TensorId delta) {
  const int64_t hidden = config_.hidden_size;
  block.middle = stream;
  if (delta.has_value()) {
    block.middle = temporary(layer_name(layer, "middle"), program_.options.residual, {stream_rows(), hidden});
  }
  block.mlp_normed = temporary(layer_name(layer, "mlp_normed"), program_.options.compute, {stream_rows(), hidden});
  block.mlp_rstd = temporary(layer_name(layer, "mlp_rstd"), DType::kF32, {stream_rows()});
  tape_.enter("forward.norm", layer);
  tape_.push(op::RmsNormForward<TensorId>{.y = block.mlp_normed,
                                          .rstd = block.mlp_rstd,
                                          .sum = delta.has_value() ? block.middle : TensorId{},
                                          .x = stream,
                                          .delta = delta,
                                          .weight = param(ParamRole::kMlpNorm, layer).master,
                                          .abs_max = abs_max_for_producer(Fp8Site::kGateUpInput, layer),
                                          .eps = static_cast<float>(config_.rms_norm_eps)});
}

// 8. Gate and up in one matmul; 9. SwiGLU; 10. down.
void LlamaEmitter::gate_and_up(BlockActivations& block, int64_t layer) {
  block.gate_up = project(kGateUpLinear, layer, block.mlp_normed, block.mlp_normed_transposed);
}

void LlamaEmitter::activate(BlockActivations& block, int64_t layer) {
  block.hidden =
      temporary(layer_name(layer, "hidden"), program_.options.compute, {num_tokens(), config_.intermediate_size});
  tape_.enter("forward.swiglu", layer);
  tape_.push(op::SwiGluForward<TensorId>{
      .h = block.hidden, .gate_up = block.gate_up, .abs_max = abs_max_for_producer(Fp8Site::kDownInput, layer)});
}

// 8 and 9 in one op, where the backend wants that.
void LlamaEmitter::gate_up_and_activate(BlockActivations& block, int64_t layer) {
  if (!joins_swiglu(layer)) {
    gate_and_up(block, layer);
    activate(block, layer);
    return;
  }
  const Linear gate_up = linear(kGateUpLinear.weight, kGateUpLinear.bias, layer);
  const DType compute = program_.options.compute;
  block.gate_up = temporary(layer_name(layer, kGateUpLinear.output), compute, {num_tokens(), gate_up.out_features});
  block.hidden = temporary(layer_name(layer, "hidden"), compute, {num_tokens(), config_.intermediate_size});
  tape_.enter(kGateUpLinear.forward_scope, layer);
  tape_.push(op::GatedForward<TensorId>{
      .gate_up = block.gate_up,
      .h = block.hidden,
      .x = block.mlp_normed,
      .weight = gate_up.weight,
      .scratch = scratch(sizes_.matmul_forward_scratch_bytes(linear_shape(gate_up, num_tokens())))});
}

void LlamaEmitter::project_down(BlockActivations& block, int64_t layer) {
  block.delta = project(kDownLinear, layer, block.hidden, block.hidden_transposed);
}

BlockActivations LlamaEmitter::forward_block(int64_t layer, TensorId stream, TensorId delta, bool goes_on) {
  BlockActivations block;
  attention_norm(block, layer, stream, delta);
  project_and_rotate(block, layer);
  attend(block, layer);
  mlp_norm(block, layer, block.input, project_output(block, layer));
  gate_up_and_activate(block, layer);
  if (goes_on) project_down(block, layer);
  return block;
}

std::vector<BlockActivations> LlamaEmitter::forward_blocks(TensorId arrived) {
  start_gathers();
  std::vector<BlockActivations> blocks;
  TensorId stream = chunk_.begins_model ? look_up_embedding() : arrived;
  TensorId delta;
  for (int64_t layer = chunk_.layers.first; layer < chunk_.layers.end(); ++layer) {
    await_weights(layer);
    blocks.push_back(forward_block(layer, stream, delta));
    store_input(blocks, layer);
    stream = blocks.back().middle;
    delta = blocks.back().delta;
  }
  return blocks;
}

// What the next block's norm would add by itself; the sum is rounded as there, so that stages change no bits.
TensorId LlamaEmitter::leaving_stream(const BlockActivations& last) {
  const Shape shape{stream_rows(), config_.hidden_size};
  const DType residual = program_.options.residual;
  tape_.enter("forward.stages");
  const TensorId sum = temporary(tape_.phase() + ".leaving_sum", DType::kF32, shape, Owner::kCommunication);
  tape_.push(op::Convert<TensorId>{.out = sum, .x = last.middle});
  tape_.push(op::Add<TensorId>{.sum = sum, .x = last.delta});
  if (residual == DType::kF32) return sum;
  const TensorId rounded = temporary(tape_.phase() + ".leaving", residual, shape, Owner::kCommunication);
  tape_.push(op::Convert<TensorId>{.out = rounded, .x = sum});
  return rounded;
}

HeadActivations LlamaEmitter::final_norm(const BlockActivations& last) {
  const int64_t hidden = config_.hidden_size;
  const HeadActivations head{
      .input = temporary(tape_.phase() + ".final_input", program_.options.residual, {stream_rows(), hidden}),
      .rstd = temporary(tape_.phase() + ".final_rstd", DType::kF32, {stream_rows()}),
      .normed = temporary(tape_.phase() + ".final_normed", program_.options.compute, {stream_rows(), hidden}),
      .normed_gradient = {}};
  tape_.enter("forward.norm");
  tape_.push(op::RmsNormForward<TensorId>{.y = head.normed,
                                          .rstd = head.rstd,
                                          .sum = head.input,
                                          .x = last.middle,
                                          .delta = last.delta,
                                          .weight = param(ParamRole::kFinalNorm, -1).master,
                                          .abs_max = {},
                                          .eps = static_cast<float>(config_.rms_norm_eps)});
  return head;
}

}  // namespace litespark
