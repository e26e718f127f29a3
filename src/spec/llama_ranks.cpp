// SPDX-License-Identifier: Apache-2.0
// Where forward and backward meet the other ranks: nothing on tapes that were not told to.
#include <algorithm>

#include "core/error.h"
#include "spec/llama_emitter.h"

namespace litespark {

void LlamaEmitter::start_gathers() {
  if (!meetings_.gathers_weights || !chunk_.begins_stage || has_started_gathers_) return;
  has_started_gathers_ = true;
  start_late_gathers(tape_, program_);
}

void LlamaEmitter::await_weights(int64_t layer) {
  if (meetings_.gathers_weights) await_late_gather(tape_, program_, layer);
}

/// Whether a micro-batch's whole gradients are temporary, to be added to what stays.
bool LlamaEmitter::is_added_up(const Bucket& bucket) const {
  if (!program_.options.shards_gradients) return false;
  return !bucket.is_copied || !meetings_.is_first;
}

/// Where backward writes a bucket's gradients: over the whole run, or, where ranks keep their pieces alone, until they
/// are reduced.
TensorId LlamaEmitter::whole_gradient(const Bucket& bucket) {
  if (!is_added_up(bucket)) return bucket.gradient;
  whole_gradients_.resize(program_.buckets.size());
  TensorId& whole = whole_gradients_[static_cast<size_t>(&bucket - program_.buckets.data())];
  if (!whole.has_value()) {
    whole = temporary(tape_.phase() + "." + bucket.name + ".gradient", program_.tensors[bucket.shard.gradient].dtype,
                      {bucket.size}, Owner::kGradients);
  }
  return whole;
}

/// What lies between parameters is told like all else, and other tensors may have been there.
void LlamaEmitter::clear_gaps(const Bucket& bucket, TensorId whole) {
  tape_.enter("backward.compress", bucket.layer);
  int64_t end = 0;
  const auto clear_until = [&](int64_t begin) {
    if (begin == end) return;
    const std::string name = bucket.name + ".gap." + std::to_string(end);
    tape_.push(op::Clear<TensorId>{.x = program_.tensors.view(whole, name, {begin - end}, end), .state = {}});
  };
  for (size_t i = 0; i < bucket.params.size(); ++i) {
    clear_until(bucket.offsets[i]);
    end = bucket.offsets[i] + program_.params.params[static_cast<size_t>(bucket.params[i])].shape.num_elements();
  }
  clear_until(bucket.size);
}

TensorId LlamaEmitter::gradient_of(ParamRole role, int64_t layer) {
  const TensorId persistent = param(role, layer).gradient;
  if (!program_.options.shards_gradients) return persistent;
  const int64_t index = *program_.params.find(role, layer);
  const ParamSpec& spec = program_.params.params[static_cast<size_t>(index)];
  for (const Bucket& bucket : program_.buckets) {
    const auto found = std::find(bucket.params.begin(), bucket.params.end(), index);
    if (found == bucket.params.end()) continue;
    if (!is_added_up(bucket)) return persistent;
    const int64_t offset = bucket.offsets[static_cast<size_t>(found - bucket.params.begin())];
    return program_.tensors.view(whole_gradient(bucket), tape_.phase() + "." + spec.name + ".gradient", spec.shape,
                                 offset);
  }
  throw InternalError(spec.name, "is in no bucket", program_.buckets.size(), "one of them");
}

void LlamaEmitter::reduce(const Bucket& bucket) {
  if (bucket.is_copied) {
    if (is_added_up(bucket)) tape_.push(op::Add<TensorId>{.sum = bucket.gradient, .x = whole_gradient(bucket)});
    return;
  }
  BucketReduction reduction{
      .bucket = &bucket, .whole = whole_gradient(bucket), .piece = bucket.shard.gradient, .sent = {}, .received = {}};
  if (bucket.is_compressed) {
    clear_gaps(bucket, reduction.whole);
    const int64_t ranks = program_.options.data_ranks;
    const Shape words = {ranks * message_words(program_.options.compression, bucket.size / ranks)};
    const std::string name = tape_.phase() + "." + bucket.name;
    reduction.sent = temporary(name + ".sent", DType::kU16, words, Owner::kCommunication);
    reduction.received = temporary(name + ".received", DType::kU16, words, Owner::kCommunication);
  }
  if (!program_.options.shards_gradients) {
    start_reduction(tape_, program_, reduction);
    reductions_.push_back(reduction);
    return;
  }
  // As much as a layer has is under way beside backward; the memory of what came before it is free again.
  finish_reductions(layer_elements() - bucket.size);
  if (!meetings_.is_first) {
    reduction.piece =
        temporary(tape_.phase() + "." + bucket.name + ".gradient_piece", program_.tensors[bucket.shard.gradient].dtype,
                  program_.tensors[bucket.shard.gradient].shape, Owner::kGradients);
  }
  start_reduction(tape_, program_, reduction);
  reductions_.push_back(reduction);
}

void LlamaEmitter::reduce_bucket(std::string_view name) {
  if (!meetings_.reduces_gradients) return;
  const Bucket* const bucket = find_bucket(program_, name);
  if (bucket == nullptr) return;
  if (has_tensor_peers() && name == "small") {
    // What all tensor-parallel ranks hold: each has summed over its own rows or heads.
    tape_.enter("backward.copies");
    sum_over_tensor_ranks(tape_, program_, whole_gradient(*bucket));
  }
  reduce(*bucket);
}

/// Behind the op that writes the gradient of a block's matrix: that of a bucket's last one completes it.
void LlamaEmitter::reduce_with(ParamRole role, int64_t layer) {
  if (!meetings_.reduces_gradients) return;
  if (role == ParamRole::kQkv) sum_copies(layer);
  const int64_t index = *program_.params.find(role, layer);
  for (const Bucket& bucket : program_.buckets) {
    if (bucket.params.back() == index) reduce(bucket);
  }
}

/// Of the gradients of a block's matrices.
int64_t LlamaEmitter::layer_elements() const {
  int64_t elements = 0;
  for (const Bucket& bucket : program_.buckets) {
    if (bucket.layer == program_.layers.front().first) elements += bucket.size;
  }
  return elements;
}

/// Waits until no more than `most` elements are under way.
void LlamaEmitter::finish_reductions(int64_t most) {
  // All ranks wait in one order, that of the buckets.
  std::sort(reductions_.begin(), reductions_.end(),
            [](const BucketReduction& a, const BucketReduction& b) { return a.bucket < b.bucket; });
  int64_t elements = 0;
  for (const BucketReduction& reduction : reductions_) elements += reduction.bucket->size;
  auto next = reductions_.begin();
  for (; next != reductions_.end() && elements > most; ++next) {
    await_reduction(tape_, program_, *next);
    const TensorId sum = next->bucket->shard.gradient;
    if (next->piece != sum) tape_.push(op::Add<TensorId>{.sum = sum, .x = next->piece});
    elements -= next->bucket->size;
  }
  reductions_.erase(reductions_.begin(), next);
}

}  // namespace litespark
