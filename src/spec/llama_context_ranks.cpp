// SPDX-License-Identifier: Apache-2.0
// Attention among ranks that share the rows of a micro-batch. Keys and values travel round the ring of these ranks, one
// rank further with each step, beside the attention of a rank's own queries to those in hand; in backward their
// gradients follow a step behind and come home in the end. Everything else of a block knows only its own rows.
#include <optional>

#include "spec/llama_emitter.h"

namespace litespark {

/// In each step come the keys of the rank one further back.
op::ContextPart LlamaEmitter::part_of_step(int64_t step) const {
  const ProgramOptions& options = program_.options;
  const int64_t ranks = options.context_ranks;
  return {.ranks = static_cast<int>(ranks),
          .query_rank = static_cast<int>(options.context_rank()),
          .key_rank = static_cast<int>((options.context_rank() - step + ranks) % ranks)};
}

TensorId LlamaEmitter::own_keys_values(const BlockActivations& block, int64_t layer) {
  const int64_t features = 2 * config_.num_key_value_heads * config_.head_dim;
  const TensorId own = temporary(layer_name(layer, "keys_values"), program_.options.compute, {num_tokens(), features},
                                 Owner::kCommunication);
  tape_.push(op::TakeColumns<TensorId>{.out = own, .x = block.qkv, .first_column = config_.attention_features()});
  return own;
}

ContextCall LlamaEmitter::pass_on(TensorId sent, const std::string& name) {
  const TensorInfo info = program_.tensors[sent];
  const ContextCall call{.filled = temporary(name, info.dtype, info.shape, Owner::kCommunication),
                         .read = sent,
                         .number = num_context_calls_++ % ContextCall::kMostUnderWay};
  start_pass_on(tape_, program_, call);
  return call;
}

void LlamaEmitter::attend_in_parts(BlockActivations& block, int64_t layer) {
  const op::AttentionShape shape = attention_shape(layer);
  const DType compute = program_.options.compute;
  const Shape out_shape{num_tokens(), config_.attention_features()};
  block.attended = temporary(layer_name(layer, "attended"), compute, out_shape);
  block.log_sum_exp = temporary(layer_name(layer, "log_sum_exp"), DType::kF32, {shape.num_heads, num_tokens()});
  const TensorId sum =
      compute == DType::kF32 ? block.attended : temporary(layer_name(layer, "attended_sum"), DType::kF32, out_shape);
  tape_.enter("forward.attention", layer);
  TensorId keys_values = own_keys_values(block, layer);
  const int64_t steps = program_.options.context_ranks;
  for (int64_t step = 0; step < steps; ++step) {
    std::optional<ContextCall> next;
    if (step + 1 < steps) next = pass_on(keys_values, layer_name(layer, "arriving_keys_values"));
    tape_.push(op::AttentionPartForward<TensorId>{
        .out = sum,
        .log_sum_exp = block.log_sum_exp,
        .qkv = block.qkv,
        .keys_values = keys_values,
        .offsets = batch_.offsets,
        .num_documents = batch_.num_documents,
        .scratch = scratch(sizes_.attention_part_forward_scratch_bytes(shape, num_tokens(), compute)),
        .shape = shape,
        .part = part_of_step(step),
        .first = step == 0});
    if (!next) break;
    await_pass_on(tape_, program_, *next);
    keys_values = next->filled;
  }
  if (sum != block.attended) tape_.push(op::Convert<TensorId>{.out = block.attended, .x = sum});
}

/// Ends with the call under way that brings the gradients of this rank's keys and values home.
LlamaEmitter::PartGradients LlamaEmitter::backward_attention_parts(const BlockActivations& block, int64_t layer,
                                                                   TensorId dattended) {
  const op::AttentionShape shape = attention_shape(layer);
  const DType compute = program_.options.compute;
  PartGradients gradients{.queries = temporary(layer_name(layer, "queries_gradient"), DType::kF32,
                                               {num_tokens(), config_.attention_features()}),
                          .keys_values = {}};
  tape_.enter("backward.attention", layer);
  TensorId keys_values = own_keys_values(block, layer);
  const int64_t steps = program_.options.context_ranks;
  for (int64_t step = 0; step < steps; ++step) {
    std::optional<ContextCall> next;
    if (step + 1 < steps) next = pass_on(keys_values, layer_name(layer, "arriving_keys_values"));
    TensorId share = temporary(layer_name(layer, "keys_values_gradient"), DType::kF32,
                               program_.tensors[keys_values].shape, Owner::kCommunication);
    tape_.push(op::AttentionPartBackward<TensorId>{
        .dqueries = gradients.queries,
        .dkeys_values = share,
        .dout = dattended,
        .qkv = block.qkv,
        .keys_values = keys_values,
        .out = block.attended,
        .log_sum_exp = block.log_sum_exp,
        .offsets = batch_.offsets,
        .num_documents = batch_.num_documents,
        .scratch = scratch(sizes_.attention_part_backward_scratch_bytes(shape, num_tokens(), compute)),
        .shape = shape,
        .part = part_of_step(step),
        .first = step == 0});
    if (step > 0) {
      // What the ranks before this one found for the same keys has arrived beside the op above.
      await_pass_on(tape_, program_, gradients.keys_values);
      tape_.push(op::Add<TensorId>{.sum = gradients.keys_values.filled, .x = share});
      share = gradients.keys_values.filled;
    }
    gradients.keys_values = pass_on(share, layer_name(layer, "arriving_keys_values_gradient"));
    if (!next) break;
    await_pass_on(tape_, program_, *next);
    keys_values = next->filled;
  }
  return gradients;
}

void LlamaEmitter::join_part_gradients(const PartGradients& parts, TensorId dqkv) {
  await_pass_on(tape_, program_, parts.keys_values);
  tape_.push(op::JoinColumns<TensorId>{.out = dqkv, .left = parts.queries, .right = parts.keys_values.filled});
}

}  // namespace litespark
