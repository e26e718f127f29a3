// SPDX-License-Identifier: Apache-2.0
// What block recomputation keeps of each block, its input, spends the time until its backward in host memory. The copy
// out runs beside the next block's forward, the copy back beside the backward of the block above: at most two inputs
// are on the device at a time. The last block's stays, since its backward comes first.
#include "spec/llama_emitter.h"

namespace litespark {
namespace {

/// Copies of one block, out or back, never meet: its number serves as their ticket.
int ticket_of(int64_t layer) {
  return static_cast<int>(layer);
}

}  // namespace

bool LlamaEmitter::is_offloaded(int64_t layer) const {
  return offloads_ && layer + 1 < config_.num_hidden_layers;
}

void LlamaEmitter::store_input(const std::vector<BlockActivations>& blocks, int64_t layer) {
  if (!offloads_) return;
  tape_.enter("forward.offload", layer);
  if (layer > 0) {
    tape_.push(op::OffloadWait<TensorId>{.device = blocks[static_cast<size_t>(layer - 1)].input,
                                         .ticket = ticket_of(layer - 1)});
  }
  if (!is_offloaded(layer)) return;
  tape_.push(op::OffloadStore<TensorId>{.host = program_.offloaded[static_cast<size_t>(layer)],
                                        .device = blocks[static_cast<size_t>(layer)].input,
                                        .ticket = ticket_of(layer)});
}

TensorId LlamaEmitter::fetch_input(int64_t layer) {
  if (layer < 0 || !is_offloaded(layer)) return {};
  const TensorId input =
      temporary(layer_name(layer, "fetched_input"), program_.options.residual, {stream_rows(), config_.hidden_size});
  tape_.enter("backward.offload", layer);
  tape_.push(op::OffloadFetch<TensorId>{
      .device = input, .host = program_.offloaded[static_cast<size_t>(layer)], .ticket = ticket_of(layer)});
  return input;
}

void LlamaEmitter::await_input(BlockActivations& block, int64_t layer, TensorId fetched) {
  if (!fetched.has_value()) return;
  tape_.enter("backward.offload", layer);
  tape_.push(op::OffloadWait<TensorId>{.device = fetched, .ticket = ticket_of(layer)});
  block.input = fetched;
}

}  // namespace litespark
