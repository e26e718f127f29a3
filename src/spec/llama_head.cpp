// SPDX-License-Identifier: Apache-2.0
// The head and the loss, a chunk of rows at a time: [N, V] logits never exist. With training, a chunk's gradients are
// taken while its logits are still warm, so nothing of it is kept or computed twice.
#include <algorithm>

#include "spec/llama_emitter.h"

namespace litespark {

LlamaEmitter::Linear LlamaEmitter::head() {
  const bool tied = config_.tie_word_embeddings;
  return linear(tied ? ParamRole::kEmbedding : ParamRole::kHead, std::nullopt, -1);
}

void LlamaEmitter::head_chunk(const Linear& linear, const HeadChunk& chunk, bool training) {
  tape_.enter("forward.head");
  linear_forward_into(linear, chunk.normed, chunk.logits);
  tape_.enter("forward.loss");
  if (has_tensor_peers()) {
    join_loss(chunk, training);
  } else {
    tape_.push(op::CrossEntropy<TensorId>{.losses = chunk.losses,
                                          .log_sum_exp = chunk.log_sum_exp,
                                          .logits = chunk.logits,
                                          .labels = chunk.labels,
                                          .state = program_.state,
                                          .z_coefficient = static_cast<float>(program_.options.z_loss),
                                          .write_gradient = training});
  }
  if (!training) return;
  tape_.enter("backward.head");
  linear_backward_weight(linear, chunk.logits, chunk.normed, accumulate_ || chunk.first > 0);
  linear_backward_input_into(linear, chunk.logits, chunk.normed_gradient);
}

/// Room for a chunk of `count` rows: the last one may be shorter.
TensorId LlamaEmitter::statistics_of(TensorId room, int64_t count) {
  if (!room.has_value()) return {};
  return program_.tensors.view(room, program_.tensors[room].name + ".chunk",
                               {program_.options.tensor_ranks, count * op::kRowStatistics}, 0);
}

HeadActivations LlamaEmitter::head_and_loss(const BlockActivations& last, bool training) {
  TensorTable& tensors = program_.tensors;
  const int64_t hidden = config_.hidden_size;
  const int64_t chunk_rows = std::min(program_.options.head_chunk_rows, num_tokens());
  await_weights(-1);
  HeadActivations head = final_norm(last);
  tape_.enter("forward.head");
  const TensorId normed = gather_rows(head.normed);
  const TensorId normed_gradient =
      training ? temporary(tape_.phase() + ".final_normed_gradient", program_.options.compute, {num_tokens(), hidden})
               : TensorId{};
  const TensorId losses = temporary(tape_.phase() + ".losses", DType::kF32, {num_tokens()});
  const TensorId log_sum_exp = program_.options.z_loss != 0
                                   ? temporary(tape_.phase() + ".log_sum_exp", DType::kF32, {num_tokens()})
                                   : TensorId{};
  const TensorId statistics =
      has_tensor_peers()
          ? temporary(tape_.phase() + ".row_statistics", DType::kF32,
                      {program_.options.tensor_ranks, chunk_rows * op::kRowStatistics}, Owner::kCommunication)
          : TensorId{};
  const TensorId logits =
      temporary(tape_.phase() + ".logits", program_.options.compute, {chunk_rows, config_.vocab_size});
  // All chunks read the same copies.
  Linear linear = this->head();
  tape_.enter("forward.head");
  linear.packed_forward = packed_copy(linear, op::PackForm::kForward);
  if (training) linear.packed_backward = packed_copy(linear, op::PackForm::kBackward);
  for (int64_t first = 0; first < num_tokens(); first += chunk_rows) {
    const int64_t count = std::min(chunk_rows, num_tokens() - first);
    head_chunk(linear,
               {.first = first,
                .count = count,
                .normed = tensors.rows(normed, first, count),
                .logits = tensors.rows(logits, 0, count),
                .losses = tensors.rows(losses, first, count),
                .log_sum_exp = log_sum_exp.has_value() ? tensors.rows(log_sum_exp, first, count) : TensorId{},
                .labels = tensors.rows(batch_.labels, first, count),
                .normed_gradient = training ? tensors.rows(normed_gradient, first, count) : TensorId{},
                .statistics = statistics_of(statistics, count)},
               training);
  }
  tape_.enter("forward.loss");
  tape_.push(op::LossReduce<TensorId>{.state = program_.state,
                                      .losses = losses,
                                      .log_sum_exp = log_sum_exp,
                                      .labels = batch_.labels,
                                      .z_coefficient = static_cast<float>(program_.options.z_loss)});
  tape_.enter("backward.head");
  if (training) head.normed_gradient = sum_rows(normed_gradient);
  return head;
}

void LlamaEmitter::all_logits(const BlockActivations& last) {
  const HeadActivations activations = final_norm(last);
  tape_.enter("forward.head");
  linear_forward_into(head(), activations.normed, program_.logits);
}

void LlamaEmitter::last_logits(const BlockActivations& last, int64_t sequences) {
  TensorTable& tensors = program_.tensors;
  const HeadActivations activations = final_norm(last);
  const int64_t rows = num_tokens() / sequences;
  tape_.enter("forward.head");
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    linear_forward_into(head(), tensors.rows(activations.normed, (sequence + 1) * rows - 1, 1),
                        tensors.rows(program_.generation.logits, sequence, 1));
  }
}

}  // namespace litespark
