// SPDX-License-Identifier: Apache-2.0
// The backward pass, block by block from the last: the mirror of llama_forward.cpp, step numbers refer to it.
#include <algorithm>

#include "core/checked.h"
#include "spec/llama_emitter.h"

namespace litespark {

BlockActivations LlamaEmitter::recomputed(const BlockActivations& kept, int64_t layer) {
  BlockActivations block = kept;
  switch (program_.options.recompute) {
    case Recompute::kNone:
    case Recompute::kEveryK: return block;
    case Recompute::kNormAct:
      attention_norm(block, layer, kept.input, {});
      mlp_norm(block, layer, kept.middle, {});
      activate(block, layer);
      return block;
    case Recompute::kAttention:
      attention_norm(block, layer, kept.input, {});
      project_and_rotate(block, layer);
      attend(block, layer);
      mlp_norm(block, layer, kept.middle, {});
      activate(block, layer);
      return block;
    case Recompute::kKeepAttention:
      attention_norm(block, layer, kept.input, {});
      project_and_rotate(block, layer);
      mlp_norm(block, layer, block.input, project_output(block, layer));
      gate_up_and_activate(block, layer);
      return block;
    case Recompute::kBlock:
      attention_norm(block, layer, kept.input, {});
      project_and_rotate(block, layer);
      attend(block, layer);
      mlp_norm(block, layer, block.input, project_output(block, layer));
      gate_up_and_activate(block, layer);
      return block;
  }
  return block;
}

std::vector<BlockActivations> LlamaEmitter::recomputed_segment(const std::vector<BlockActivations>& blocks,
                                                               int64_t first, int64_t last) {
  std::vector<BlockActivations> segment;
  TensorId stream = blocks[place_of(first)].input;
  TensorId delta;
  for (int64_t layer = first; layer <= last; ++layer) {
    segment.push_back(forward_block(layer, stream, delta, layer < last));
    stream = segment.back().middle;
    delta = segment.back().delta;
  }
  return segment;
}

void LlamaEmitter::backward_norm(const NormBackward& norm, const ResidualGradient& gradient) {
  const int64_t hidden = config_.hidden_size;
  const ParamTensors& weight = param(norm.role, norm.layer);
  tape_.enter("backward.norm", norm.layer);
  tape_.push(op::RmsNormBackward<TensorId>{
      .dresidual = gradient.stream,
      .dresidual_cast = casts_residual() ? gradient.cast : TensorId{},
      .dweight = gradient_of(norm.role, norm.layer),
      .dy = norm.dy,
      .x = norm.x,
      .rstd = norm.rstd,
      .weight = weight.master,
      .partials = temporary(tape_.phase() + ".norm_partials", DType::kF32,
                            {ceil_div(stream_rows(), op::kRmsNormRowsPerBlock), hidden}, Owner::kScratch),
      .abs_max = norm.abs_max,
      .first = norm.first,
      .accumulate = accumulate_});
}

// 10 and 9 backwards. The gradient of gate and up in place: once it is known, nobody reads them again.
void LlamaEmitter::backward_down_and_swiglu(const BlockActivations& block, int64_t layer, const OutputGradient& ddown) {
  const KeptInput hidden{.values = block.hidden, .transposed = block.hidden_transposed};
  if (!joins_swiglu(layer)) {
    const TensorId dhidden = project_backward_input(kDownLinear, layer, ddown);
    project_backward_weight(kDownLinear, layer, ddown, hidden);
    tape_.enter("backward.swiglu", layer);
    tape_.push(op::SwiGluBackward<TensorId>{.dgate_up = block.gate_up,
                                            .dh = dhidden,
                                            .gate_up = block.gate_up,
                                            .abs_max = abs_max_for_producer(Fp8Site::kGateUpGradient, layer)});
    return;
  }
  const Linear down = linear(kDownLinear.weight, kDownLinear.bias, layer);
  const int64_t gradient_bytes = op::gated_gradient_bytes(num_tokens(), down.in_features, program_.options.compute);
  project_backward_weight(kDownLinear, layer, ddown, hidden);
  tape_.push(op::GatedBackward<TensorId>{.dgate_up = block.gate_up,
                                         .gate_up = block.gate_up,
                                         .dout = ddown.values,
                                         .weight = down.weight,
                                         .scratch = scratch(gradient_bytes + sizes_.matmul_backward_input_scratch_bytes(
                                                                                 linear_shape(down, num_tokens())))});
}

// 10, 9, 8, 7 backwards.
void LlamaEmitter::backward_mlp(const BlockActivations& block, int64_t layer, const ResidualGradient& gradient) {
  const OutputGradient ddown = output_gradient(kDownLinear, layer, gradient.cast);
  backward_down_and_swiglu(block, layer, ddown);
  const OutputGradient dgate_up = output_gradient(kGateUpLinear, layer, block.gate_up);
  const TensorId dnormed = project_backward(kGateUpLinear, layer, dgate_up,
                                            {.values = block.mlp_normed, .transposed = block.mlp_normed_transposed});
  backward_norm({.role = ParamRole::kMlpNorm,
                 .layer = layer,
                 .x = block.middle,
                 .rstd = block.mlp_rstd,
                 .dy = dnormed,
                 .abs_max = abs_max_for_producer(Fp8Site::kOutputGradient, layer)},
                gradient);
}

// 4 backwards, where attention has not done it already.
void LlamaEmitter::rotate_back(int64_t layer, TensorId dqkv) {
  if (config_.positions != Positions::kRope) return;
  tape_.enter("backward.rope", layer);
  op::Rope<TensorId> rope = rotation(dqkv);
  rope.abs_max = abs_max_for_producer(Fp8Site::kQkvGradient, layer);
  rope.inverse = true;
  tape_.push(rope);
}

// 3 backwards, in place on the gradient of q, k, v.
void LlamaEmitter::backward_head_norms(const BlockActivations& block, int64_t layer, TensorId dqkv) {
  const ModelConfig& config = config_;
  if (!config.has_qk_norm) return;
  const int num_heads = static_cast<int>(config.num_attention_heads);
  const int num_kv_heads = static_cast<int>(config.num_key_value_heads);
  const int head_dim = static_cast<int>(config.head_dim);
  tape_.enter("backward.rope", layer);
  const ParamTensors& query_norm = param(ParamRole::kQueryNorm, layer);
  const ParamTensors& key_norm = param(ParamRole::kKeyNorm, layer);
  tape_.push(op::HeadNormBackward<TensorId>{
      .dqkv = dqkv,
      .dq_weight = gradient_of(ParamRole::kQueryNorm, layer),
      .dk_weight = gradient_of(ParamRole::kKeyNorm, layer),
      .qkv = block.qkv_projected,
      .rstd = block.head_rstd,
      .q_weight = query_norm.master,
      .k_weight = key_norm.master,
      .partials =
          temporary(tape_.phase() + ".head_norm_partials", DType::kF32,
                    {ceil_div(num_tokens(), op::kRmsNormRowsPerBlock), std::int64_t{2} * head_dim}, Owner::kScratch),
      .num_heads = num_heads,
      .num_kv_heads = num_kv_heads,
      .head_dim = head_dim,
      .accumulate = accumulate_});
}

// 6, 5, 4, 3, 2, 1 backwards.
void LlamaEmitter::backward_attention(const BlockActivations& block, int64_t layer, const ResidualGradient& gradient) {
  const op::AttentionShape shape = attention_shape(layer);
  const DType compute = program_.options.compute;
  const OutputGradient doutput = output_gradient(kOutputLinear, layer, gradient.cast);
  const TensorId dattended = project_backward_input(kOutputLinear, layer, doutput);
  const KeptInput attended{.values = block.attended, .transposed = block.attended_transposed};
  PartGradients parts;
  if (has_context_peers()) parts = backward_attention_parts(block, layer, dattended);
  project_backward_weight(kOutputLinear, layer, doutput, attended);
  const TensorId dqkv = temporary(layer_name(layer, "qkv_gradient"), compute, {num_tokens(), config_.qkv_features()});
  tape_.enter("backward.attention", layer);
  if (has_context_peers()) {
    join_part_gradients(parts, dqkv);
    rotate_back(layer, dqkv);
  } else {
    const bool rotates = config_.positions == Positions::kRope;
    tape_.push(op::AttentionBackward<TensorId>{
        .dqkv = dqkv,
        .dout = dattended,
        .qkv = block.qkv,
        .out = block.attended,
        .log_sum_exp = block.log_sum_exp,
        .offsets = batch_.offsets,
        .num_documents = batch_.num_documents,
        .scratch = scratch(sizes_.attention_backward_scratch_bytes(shape, num_tokens(), compute)),
        .table = rotates ? program_.rope_table : TensorId{},
        .positions = rotates ? batch_.positions : TensorId{},
        .abs_max = abs_max_for_producer(Fp8Site::kQkvGradient, layer),
        .shape = shape});
  }
  backward_head_norms(block, layer, dqkv);
  const OutputGradient dprojected = output_gradient(kQkvLinear, layer, dqkv);
  const TensorId dnormed =
      project_backward(kQkvLinear, layer, dprojected,
                       {.values = block.attention_normed, .transposed = block.attention_normed_transposed});
  backward_norm({.role = ParamRole::kAttentionNorm,
                 .layer = layer,
                 .x = block.input,
                 .rstd = block.attention_rstd,
                 .dy = dnormed,
                 .abs_max = abs_max_for_producer(Fp8Site::kDownGradient, layer - 1)},
                gradient);
}

void LlamaEmitter::backward_block(const BlockActivations& block, int64_t layer, const ResidualGradient& gradient) {
  backward_mlp(block, layer, gradient);
  backward_attention(block, layer, gradient);
}

void LlamaEmitter::backward_embedding(const ResidualGradient& gradient) {
  const int64_t vocab = config_.vocab_size;
  tape_.enter("backward.embedding");
  const TensorId dout = gather_rows(gradient.stream);
  tape_.push(op::EmbeddingBackward<TensorId>{
      .dtable = gradient_of(ParamRole::kEmbedding, -1),
      .dout = dout,
      .ids = batch_.ids,
      .scratch =
          temporary(tape_.phase() + ".embedding_sort", DType::kI32, {2 * num_tokens() + vocab + 1}, Owner::kScratch),
      // A tied head of this rank has written its part of it already.
      .accumulate = accumulate_ || (config_.tie_word_embeddings && program_.options.stages == 1),
      .first_id = held_vocabulary(program_.config, tensor_place()).first});
  reduce_bucket("embedding");
}

LlamaEmitter::ResidualGradient LlamaEmitter::gradient_of_head(const HeadActivations& head) {
  const Shape stream_shape{stream_rows(), config_.hidden_size};
  ResidualGradient gradient;
  gradient.stream = temporary(tape_.phase() + ".stream_gradient", program_.options.residual, stream_shape);
  gradient.cast = casts_residual()
                      ? temporary(tape_.phase() + ".stream_gradient_cast", program_.options.compute, stream_shape)
                      : gradient.stream;
  backward_norm({.role = ParamRole::kFinalNorm,
                 .layer = -1,
                 .x = head.input,
                 .rstd = head.rstd,
                 .dy = head.normed_gradient,
                 .abs_max = abs_max_for_producer(Fp8Site::kDownGradient, config_.num_hidden_layers - 1),
                 .first = true},
                gradient);
  return gradient;
}

TensorId LlamaEmitter::backward_blocks(const std::vector<BlockActivations>& blocks, const ResidualGradient& gradient) {
  const bool by_segment = program_.options.recompute == Recompute::kEveryK;
  const int64_t segment_size = by_segment ? program_.options.recompute_every : 1;
  const bool recomputes = program_.options.recompute != Recompute::kNone;
  stage_ = recomputes ? ".recompute" : "";
  tape_.set_recomputing(recomputes);
  TensorId fetched;  // the next block's input on its way back from the host
  for (int64_t last = chunk_.layers.end() - 1; last >= chunk_.layers.first;) {
    const int64_t first = std::max(last / segment_size * segment_size, chunk_.layers.first);
    if (by_segment) {
      const std::vector<BlockActivations> segment = recomputed_segment(blocks, first, last);
      for (int64_t layer = last; layer >= first; --layer) {
        backward_block(segment[static_cast<size_t>(layer - first)], layer, gradient);
      }
    } else {
      BlockActivations kept = blocks[place_of(last)];
      await_input(kept, last, fetched);
      fetched = fetch_input(last - 1);
      backward_block(recomputed(kept, last), last, gradient);
    }
    last = first - 1;
  }
  stage_.clear();
  tape_.set_recomputing(false);
  if (chunk_.begins_stage) {
    reduce_bucket("small");
    reduce_bucket("cut_vectors");
  }
  if (chunk_.begins_model) backward_embedding(gradient);
  finish_reductions();
  return gradient.stream;
}

TensorId LlamaEmitter::backward(const std::vector<BlockActivations>& blocks, const HeadActivations& head) {
  reduce_bucket("head");
  if (!chunk_.begins_model) reduce_bucket("embedding");  // a tied head
  return backward_blocks(blocks, gradient_of_head(head));
}

TensorId LlamaEmitter::backward(const std::vector<BlockActivations>& blocks, TensorId arrived) {
  ResidualGradient gradient{.stream = arrived, .cast = arrived};
  if (casts_residual()) {
    gradient.cast = temporary(tape_.phase() + ".stream_gradient_cast", program_.options.compute,
                              {stream_rows(), config_.hidden_size});
    tape_.enter("backward.stages");
    tape_.push(op::Convert<TensorId>{.out = gradient.cast, .x = arrived});
  }
  return backward_blocks(blocks, gradient);
}

}  // namespace litespark
