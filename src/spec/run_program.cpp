// SPDX-License-Identifier: Apache-2.0
#include "spec/run_program.h"

#include <algorithm>

namespace litespark {
namespace {

BatchShape batch_of(const RunConfig& config) {
  const int64_t rows = config.train.micro_batch;
  const int64_t length = config.data.seq_len;
  const bool is_uniform = config.data.source != DataSource::kShards || config.data.packing == Packing::kStream;
  if (!is_uniform) return packed_batch(rows, length);
  return {.num_tokens = rows * length, .max_documents = rows, .max_length = length, .uniform = true};
}

/// Samples of a run see no more than it trains on. One prefill takes as much of the prompt as fits.
std::optional<GenerationShape> sampling_of(const RunConfig& config) {
  if (config.train.sample_every == 0) return std::nullopt;
  GenerationShape shape{.capacity = std::min(config.train.sample_tokens, config.data.seq_len)};
  shape.prefill_rows = std::min(shape.prefill_rows, shape.capacity);
  return shape;
}

std::optional<Fp8Options> fp8_of(const PrecisionSection& precision) {
  if (precision.matmul == MatmulPrecision::kCompute) return std::nullopt;
  return Fp8Options{.gradient = precision.fp8_gradient == Fp8Gradient::kE5M2 ? DType::kE5M2 : DType::kE4M3,
                    .scaling = precision.fp8_scaling,
                    .allows_emulation = precision.matmul == MatmulPrecision::kFp8Emulated};
}

std::optional<Fp8AttentionOptions> fp8_attention_of(const PrecisionSection& precision) {
  if (precision.attention == AttentionPrecision::kCompute) return std::nullopt;
  return Fp8AttentionOptions{.allows_emulation = precision.attention == AttentionPrecision::kFp8Emulated};
}

/// Made on use, copies are packed for every micro-batch: with one a step that is as often as they change. Sampled texts
/// would pack every weight for every token.
bool packs_on_use(const RunConfig& config) {
  if (config.memory.packed_copies != PackedCopies::kAuto) return config.memory.packed_copies == PackedCopies::kOnUse;
  return config.train.accumulation == 1 && config.train.sample_every == 0;
}

}  // namespace

BatchShape packed_batch(int64_t rows, int64_t length) {
  constexpr int64_t kTokensPerDocument = 8;
  return {.num_tokens = rows * length,
          .max_documents = std::max(rows, rows * length / kTokensPerDocument),
          .max_length = length};
}

ProgramOptions training_options(const RunConfig& config) {
  const BatchShape batch = batch_of(config);
  return {.batch = batch,
          .compute = config.precision.compute,
          .residual = config.precision.residual_dtype(),
          .recompute = config.memory.recompute,
          .recompute_every = config.memory.recompute_every,
          .accumulates = config.train.accumulation > 1,
          .has_checksums = config.device.verify_every > 0,
          .checks_replicas = config.distribution.verify_every > 0,
          .head_chunk_rows = config.train.head_chunk_rows,
          .z_loss = config.train.z_loss,
          .master = config.precision.master,
          .moments = config.optim.moments,
          .gradient = config.precision.gradient,
          .carries_gradients = config.train.accumulation == 1 && !config.meets_ranks(),
          .offloads_activations = config.memory.offload == Offload::kActivations,
          .adamw = {.beta1 = config.optim.betas.at(0),
                    .beta2 = config.optim.betas.at(1),
                    .eps = config.optim.eps,
                    .weight_decay = config.optim.weight_decay,
                    .seed = static_cast<uint64_t>(config.seed)},
          .packs_on_use = packs_on_use(config),
          .fp8 = fp8_of(config.precision),
          .fp8_attention = fp8_attention_of(config.precision),
          .generation = sampling_of(config),
          .data_ranks = config.cluster.reducing_ranks(),
          .context_ranks = config.cluster.cp,
          .sync_small_every = config.distribution.sync_small_every,
          .shards_gradients = config.distribution.zero > 1,
          .compression = config.distribution.compression,
          .has_error_feedback = config.distribution.error_feedback,
          .tensor_ranks = config.cluster.tp,
          .tensor_stretches = config.distribution.tensor_stretches,
          .stages = config.cluster.pp,
          .chunks = config.cluster.vpp,
          .range_layers = config.cluster.pp_layers,
          .micro_batches = config.train.accumulation,
          .meets_itself = config.cluster.gpus == 1 && config.distribution.at_one_rank};
}

}  // namespace litespark
