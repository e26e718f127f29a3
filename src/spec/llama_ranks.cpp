// SPDX-License-Identifier: Apache-2.0
// Where forward and backward meet the other ranks: nothing on tapes that were not told to.
#include "spec/communication_tape.h"
#include "spec/llama_emitter.h"

namespace litespark {

void LlamaEmitter::start_gathers() {
  if (meetings_.gathers_weights) start_late_gathers(tape_, program_);
}

void LlamaEmitter::await_weights(int64_t layer) {
  if (meetings_.gathers_weights) await_late_gather(tape_, program_, layer);
}

void LlamaEmitter::reduce_bucket(std::string_view name) {
  if (!meetings_.reduces_gradients) return;
  const Bucket* const bucket = find_bucket(program_, name);
  if (bucket == nullptr) return;
  if (has_tensor_peers() && name == "small") {
    // What all tensor-parallel ranks hold: each has summed over its own rows or heads.
    tape_.enter("backward.copies");
    sum_over_tensor_ranks(tape_, program_, bucket->gradient);
  }
  start_reduction(tape_, program_, *bucket);
}

void LlamaEmitter::reduce_layer(int64_t layer) {
  if (!meetings_.reduces_gradients) return;
  sum_copies(layer);
  start_reduction(tape_, program_, *layer_bucket(program_, layer));
}

void LlamaEmitter::finish_reductions() {
  if (meetings_.reduces_gradients) await_reductions(tape_, program_);
}

}  // namespace litespark
