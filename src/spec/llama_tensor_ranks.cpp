// SPDX-License-Identifier: Apache-2.0
// What tensor-parallel ranks tell each other in forward and backward. Each keeps and normalises a part of the stream's
// rows; in front of the first matmul of attention, MLP and head the rows come together, behind the last one the parts
// of its sum are added, each rank receiving its rows. The vocabulary is cut, so a row's loss is put together from what
// every rank knows of its logits.
#include "spec/llama_emitter.h"

namespace litespark {

/// Rows travel in equal stretches, so that a product reads the first beside the arrival of the next, or adds the first
/// up beside the making of the next. Of every stretch each rank keeps its piece, so whole rows are in order of tokens.
int64_t LlamaEmitter::num_stretches() const {
  const int64_t asked = program_.options.tensor_stretches;
  return has_tensor_peers() && stream_rows() % asked == 0 ? asked : 1;
}

/// Of whole rows, or of this rank's.
TensorId LlamaEmitter::stretch_of(TensorId rows, int64_t stretch) {
  const int64_t stretches = num_stretches();
  if (stretches == 1) return rows;
  const int64_t count = program_.tensors[rows].shape[0] / stretches;
  return program_.tensors.rows(rows, stretch * count, count);
}

TensorCall LlamaEmitter::stretch_call(TensorId filled, TensorId read) {
  return {.filled = filled, .read = read, .number = num_tensor_calls_++ % TensorCall::kMostUnderWay};
}

/// All ranks' rows of a tensor [N / R, C].
LlamaEmitter::RowsUnderWay LlamaEmitter::start_gather(TensorId own) {
  if (!has_tensor_peers()) return {.whole = own, .own = own, .calls = {}};
  const TensorInfo info = program_.tensors[own];
  RowsUnderWay rows{
      .whole = temporary(info.name + ".gathered", info.dtype, {num_tokens(), info.shape[1]}, Owner::kCommunication),
      .own = own,
      .calls = {}};
  for (int64_t s = 0; s < num_stretches(); ++s) {
    rows.calls.push_back(stretch_call(stretch_of(rows.whole, s), stretch_of(own, s)));
    start_tensor_gather(tape_, program_, rows.calls.back());
  }
  return rows;
}

/// Room for this rank's rows of the sum of all ranks' `parts` [N, C].
LlamaEmitter::RowsUnderWay LlamaEmitter::sum_of(TensorId parts) {
  if (!has_tensor_peers()) return {.whole = parts, .own = parts, .calls = {}};
  const TensorInfo info = program_.tensors[parts];
  return {
      .whole = parts, .own = temporary(info.name + ".summed", info.dtype, {stream_rows(), info.shape[1]}), .calls = {}};
}

/// Stretch by stretch, as soon as `whole` has it.
void LlamaEmitter::start_sum(RowsUnderWay& rows, int64_t stretch) {
  if (!has_tensor_peers()) return;
  rows.calls.push_back(stretch_call(stretch_of(rows.own, stretch), stretch_of(rows.whole, stretch)));
  start_tensor_reduction(tape_, program_, rows.calls.back());
}

void LlamaEmitter::await_stretch(const RowsUnderWay& rows, int64_t stretch) {
  if (!rows.calls.empty()) await_tensor_call(tape_, program_, rows.calls[static_cast<size_t>(stretch)]);
}

void LlamaEmitter::await_rows(const RowsUnderWay& rows) {
  for (int64_t s = 0; s < num_stretches(); ++s) await_stretch(rows, s);
}

TensorId LlamaEmitter::gather_rows(TensorId own) {
  const RowsUnderWay rows = start_gather(own);
  await_rows(rows);
  return rows.whole;
}

TensorId LlamaEmitter::sum_rows(TensorId parts) {
  RowsUnderWay rows = sum_of(parts);
  for (int64_t s = 0; s < num_stretches(); ++s) start_sum(rows, s);
  await_rows(rows);
  return rows.own;
}

TensorId LlamaEmitter::look_up_embedding() {
  const TensorId embedded =
      temporary(tape_.phase() + ".embedded", program_.options.residual, {num_tokens(), config_.hidden_size});
  const ParamTensors& embedding = param(ParamRole::kEmbedding, -1);
  // Where matmuls read packed copies there is no bf16 copy beside an f32 master, and lookups read the master: with
  // remainders they must see the same values.
  const bool reads_master = program_.packs;
  const HeldVocabulary held = held_vocabulary(program_.config, tensor_place());
  tape_.enter("forward.embedding");
  tape_.push(op::EmbeddingForward<TensorId>{.out = embedded,
                                            .table = embedding.weight.has_value() ? embedding.weight : embedding.master,
                                            .remainder = reads_master ? embedding.remainder : TensorId{},
                                            .ids = batch_.ids,
                                            .state = program_.state,
                                            .first_id = held.first,
                                            .vocab = program_.config.vocab_size});
  return sum_rows(embedded);
}

void LlamaEmitter::join_loss(const HeadChunk& chunk, bool training) {
  const HeldVocabulary held = held_vocabulary(program_.config, tensor_place());
  const TensorId own = program_.tensors.rows(chunk.statistics, program_.options.tensor_rank, 1);
  tape_.push(op::CrossEntropyPart<TensorId>{.statistics = own,
                                            .logits = chunk.logits,
                                            .labels = chunk.labels,
                                            .first_id = held.first,
                                            .columns = held.count});
  const TensorCall call = stretch_call(chunk.statistics, own);
  start_tensor_gather(tape_, program_, call);
  await_tensor_call(tape_, program_, call);
  tape_.push(op::CrossEntropyJoined<TensorId>{.losses = chunk.losses,
                                              .log_sum_exp = chunk.log_sum_exp,
                                              .logits = chunk.logits,
                                              .labels = chunk.labels,
                                              .statistics = chunk.statistics,
                                              .state = program_.state,
                                              .ranks = program_.options.tensor_ranks,
                                              .first_id = held.first,
                                              .columns = held.count,
                                              .vocab = program_.config.vocab_size,
                                              .z_coefficient = static_cast<float>(program_.options.z_loss),
                                              .write_gradient = training});
}

/// Key and value heads that several ranks hold get the sum of their copies' gradients, so that they stay copies.
void LlamaEmitter::sum_copies(int64_t layer) {
  if (copies_of_kv_heads(program_.config, program_.options.tensor_ranks) == 1) return;
  tape_.enter("backward.copies", layer);
  sum_copies_of(ParamRole::kQkv, layer);
  if (program_.config.has_qkv_bias) sum_copies_of(ParamRole::kQkvBias, layer);
}

void LlamaEmitter::sum_copies_of(ParamRole role, int64_t layer) {
  const ModelConfig& model = program_.config;
  const TensorId gradient = gradient_of(role, layer);
  Shape shape{2 * model.num_key_value_heads * model.head_dim};
  if (program_.tensors[gradient].shape.rank() == 2) shape.append(model.hidden_size);
  const TensorId sums = temporary(layer_name(layer, role == ParamRole::kQkv ? "kv_sums" : "kv_bias_sums"), DType::kF32,
                                  shape, Owner::kCommunication);
  const int64_t dim = model.head_dim;
  const int64_t head = program_.options.tensor_rank / copies_of_kv_heads(model, program_.options.tensor_ranks);
  // This rank's key head and value head, and where they stand among all.
  const int64_t own[] = {config_.num_attention_heads * dim, (config_.num_attention_heads + 1) * dim};
  const int64_t places[] = {head * dim, (model.num_key_value_heads + head) * dim};
  tape_.push(op::Clear<TensorId>{.x = sums, .state = {}});
  for (int i = 0; i < 2; ++i) {
    tape_.push(op::Convert<TensorId>{.out = program_.tensors.rows(sums, places[i], dim),
                                     .x = program_.tensors.rows(gradient, own[i], dim)});
  }
  sum_over_tensor_ranks(tape_, program_, sums);
  for (int i = 0; i < 2; ++i) {
    tape_.push(op::Convert<TensorId>{.out = program_.tensors.rows(gradient, own[i], dim),
                                     .x = program_.tensors.rows(sums, places[i], dim)});
  }
}

}  // namespace litespark
