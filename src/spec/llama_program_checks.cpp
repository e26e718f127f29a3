// SPDX-License-Identifier: Apache-2.0
#include "spec/llama_program_checks.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "spec/param_cut.h"

namespace litespark {
namespace {

bool has_countable_tokens(const BatchShape& batch) {
  return batch.num_tokens > 0 && batch.num_tokens <= INT32_MAX;
}

/// Rows that make kMostHeadChunks of `num_tokens`.
int64_t fewest_head_chunk_rows(int64_t num_tokens) {
  return (num_tokens + kMostHeadChunks - 1) / kMostHeadChunks;
}

bool has_bounded_chunks(const ProgramOptions& options) {
  return options.head_chunk_rows == 0 || options.head_chunk_rows >= fewest_head_chunk_rows(options.batch.num_tokens);
}

int64_t most_micro_batches(const ModelConfig& config) {
  return kMostLayerPasses / config.num_hidden_layers;
}

bool has_bounded_passes(const ModelConfig& config, const ProgramOptions& options) {
  return options.stages == 1 || options.micro_batches <= most_micro_batches(config);
}

void validate_options(const ModelConfig& config, const ProgramOptions& options) {
  const BatchShape& batch = options.batch;
  if (!has_countable_tokens(batch)) {
    throw ConfigError("train.micro_batch", "x data.seq_len, the tokens of a micro-batch, is out of range",
                      batch.num_tokens, "1 to 2^31 - 1");
  }
  if (batch.max_length <= 0 || batch.max_length > batch.num_tokens) {
    throw ConfigError("data.seq_len", "out of range", batch.max_length, "1 to the tokens of a micro-batch");
  }
  if (batch.max_documents <= 0 || batch.max_documents > batch.num_tokens) {
    throw ConfigError("documents", "out of range", batch.max_documents, "1 to the tokens of a micro-batch");
  }
  if (batch.uniform && batch.max_documents * batch.max_length != batch.num_tokens) {
    throw InternalError("batch", "uniform documents must fill it", batch.num_tokens,
                        batch.max_documents * batch.max_length);
  }
  if (batch.max_length > config.max_position_embeddings) {
    throw ConfigError("data.seq_len", "longer than the model's positions", batch.max_length,
                      "at most max_position_embeddings = " + std::to_string(config.max_position_embeddings));
  }
  if (options.compute != DType::kBF16 && (options.master != MasterWeights::kF32 || options.gradient != DType::kF32)) {
    throw ConfigError("precision.compute", "must be bf16 for bf16 weights and gradients", dtype_name(options.compute),
                      "bf16");
  }
  if (options.gradient != DType::kF32 && options.accumulates) {
    throw ConfigError("precision.gradient", "cannot be accumulated", dtype_name(options.gradient), "f32");
  }
  if (options.carries_gradients && (options.accumulates || options.meets_ranks())) {
    throw InternalError("carries_gradients", "gradients outlive the micro-batch", "several of them, or ranks", "one");
  }
  if (options.generation) {
    const GenerationShape& shape = *options.generation;
    if (shape.sequences <= 0 || shape.prefill_rows <= 0 || shape.capacity <= 0 ||
        shape.capacity > config.max_position_embeddings) {
      throw ConfigError("generation", "capacity out of range", shape.capacity,
                        "1 to max_position_embeddings = " + std::to_string(config.max_position_embeddings));
    }
  }
  if (options.head_chunk_rows < 0) {
    throw ConfigError("train.head_chunk_rows", "must not be negative", options.head_chunk_rows, "0 or more");
  }
  if (!has_bounded_chunks(options)) {
    throw ConfigError("train.head_chunk_rows",
                      "cuts the logits of a micro-batch into more than " + std::to_string(kMostHeadChunks) + " chunks",
                      options.head_chunk_rows,
                      "at least " + std::to_string(fewest_head_chunk_rows(batch.num_tokens)) + " for " +
                          std::to_string(batch.num_tokens) + " tokens");
  }
  if (options.offloads_activations && options.recompute != Recompute::kBlock) {
    throw ConfigError("memory.offload", "moves what block recomputation keeps", "another memory.recompute", "block");
  }
  if (options.recompute == Recompute::kEveryK &&
      (options.recompute_every <= 0 || options.recompute_every > config.num_hidden_layers)) {
    throw ConfigError("memory.recompute_every", "out of range", options.recompute_every,
                      "1 to " + std::to_string(config.num_hidden_layers));
  }
}

void validate_ranks(const ProgramOptions& options) {
  if (options.data_ranks < 1 || options.data_rank < 0 || options.data_rank >= options.data_ranks) {
    throw InternalError("data_rank", "out of range", options.data_rank,
                        "0 to " + std::to_string(options.data_ranks - 1));
  }
  if (options.tensor_ranks < 1 || options.tensor_rank < 0 || options.tensor_rank >= options.tensor_ranks) {
    throw InternalError("tensor_rank", "out of range", options.tensor_rank,
                        "0 to " + std::to_string(options.tensor_ranks - 1));
  }
  if (options.stages < 1 || options.stage < 0 || options.stage >= options.stages) {
    throw InternalError("stage", "out of range", options.stage, "0 to " + std::to_string(options.stages - 1));
  }
  if (options.sync_small_every < 1) {
    throw ConfigError("distribution.sync_small_every", "out of range", options.sync_small_every, "1 or more");
  }
  if (options.compression != Compression::kNone && options.gradient != DType::kF32) {
    throw ConfigError("distribution.compression", "rounds gradients that precision.gradient has rounded already",
                      "precision.gradient = \"bf16\"", "precision.gradient = \"fp32\"",
                      "or set distribution.compression = \"none\"");
  }
  if (options.meets_itself && options.world_ranks() > 1) {
    throw InternalError("meets_itself", "has others to meet", options.world_ranks(), "one rank");
  }
  if (!options.meets_ranks()) return;
  if (!options.has_training) throw InternalError("ranks", "share training only", options.world_ranks(), 1);
  if (options.has_checksums) {
    throw ConfigError("device.verify_every", "compares the gradients of one rank that meets nobody",
                      options.world_ranks(), "one rank", "set device.verify_every = 0");
  }
}

void validate_tensor_ranks(const ModelConfig& config, const ProgramOptions& options) {
  if (options.tensor_ranks == 1) return;
  require_cut(config, options.tensor_ranks);
  if (options.rank_tokens() % options.tensor_ranks != 0) {
    throw ConfigError("cluster.tp", "does not divide the tokens of a micro-batch, whose norms its ranks share",
                      options.tensor_ranks, "a divisor of " + std::to_string(options.rank_tokens()));
  }
  if (config.positions == Positions::kAlibi) {
    throw ConfigError("model.positions", "ALiBi's slopes belong to all heads, of which a tensor-parallel rank has some",
                      "alibi", "rope", "or set cluster.tp = 1");
  }
  if (options.fp8) {
    throw ConfigError("precision.matmul", "8-bit matmuls have no tensor-parallel form yet", "8-bit floats",
                      "precision.matmul = \"compute\"", "or set cluster.tp = 1");
  }
  if (options.generation) {
    throw ConfigError("train.sample_every", "samples need whole logits, which tensor-parallel ranks never have",
                      "cluster.tp = " + std::to_string(options.tensor_ranks), "train.sample_every = 0",
                      "or set cluster.tp = 1");
  }
  if (options.has_logits) {
    throw InternalError("has_logits", "tensor-parallel ranks never have whole logits", options.tensor_ranks, 1);
  }
}

void validate_context_ranks(const ProgramOptions& options, const BackendSizes& sizes) {
  const int64_t ranks = options.context_ranks;
  if (ranks < 1 || options.data_ranks % ranks != 0) {
    throw InternalError("context_ranks", "does not divide the data ranks", ranks, options.data_ranks);
  }
  if (ranks == 1) return;
  if (!sizes.has_attention_parts()) {
    throw ConfigError("cluster.cp", "has no kernels on this device yet", ranks, 1, "or set device.kind = \"cpu\"");
  }
  require_context_rows(options.batch.num_tokens, ranks, options.tensor_ranks);
  if (options.fp8) {
    throw ConfigError("precision.matmul", "8-bit matmuls have no context-parallel form yet", "8-bit floats",
                      "precision.matmul = \"compute\"", "or set cluster.cp = 1");
  }
  if (options.sync_small_every > 1) {
    throw ConfigError("distribution.sync_small_every",
                      "lets ranks differ in norms, through which those that share a micro-batch must see the same keys",
                      options.sync_small_every, 1, "or set cluster.cp = 1");
  }
  if (options.has_logits) throw InternalError("has_logits", "context ranks never have all logits", ranks, 1);
}

void validate_stages(const ModelConfig& config, const ProgramOptions& options) {
  if (options.chunks < 1 || (options.stages == 1 && options.chunks > 1)) {
    throw ConfigError("cluster.vpp", "needs several pipeline stages", options.chunks, "1, or set cluster.pp");
  }
  require_layers(config, options.stages, options.chunks, options.range_layers);
  if (options.stages == 1) return;
  if (options.micro_batches < 1 || options.accumulates != (options.micro_batches > 1)) {
    throw InternalError("micro_batches", "is not what the options say of accumulation", options.micro_batches,
                        options.accumulates ? "2 or more" : "1");
  }
  if (!has_bounded_passes(config, options)) {
    throw ConfigError("train.accumulation",
                      "is too much for pipeline stages, which prepare all micro-batches of a step",
                      options.micro_batches,
                      "at most " + std::to_string(most_micro_batches(config)) + " with " +
                          std::to_string(config.num_hidden_layers) + " layers");
  }
  if (options.chunks > 1 && options.micro_batches % options.stages != 0) {
    throw ConfigError("cluster.vpp", "interleaved stages take micro-batches in rounds of cluster.pp",
                      "train.accumulation = " + std::to_string(options.micro_batches),
                      "a multiple of " + std::to_string(options.stages), "or set cluster.vpp = 1");
  }
  if (options.chunks > 1 && options.shards_gradients) {
    throw ConfigError("distribution.zero", "2 has no form for interleaved stages yet", 2, 1, "or set cluster.vpp = 1");
  }
  const std::string found = "cluster.pp = " + std::to_string(options.stages);
  if (options.fp8) {
    throw ConfigError("precision.matmul", "8-bit matmuls have no pipeline-parallel form yet", "8-bit floats",
                      "precision.matmul = \"compute\"", "or set cluster.pp = 1");
  }
  if (options.generation) {
    throw ConfigError("train.sample_every", "samples need all layers on one device", found, "train.sample_every = 0",
                      "or set cluster.pp = 1");
  }
  if (options.offloads_activations) {
    throw ConfigError("memory.offload", "has no pipeline-parallel form yet", found, "memory.offload = \"none\"",
                      "or set cluster.pp = 1");
  }
  if (options.has_logits) {
    throw InternalError("has_logits", "pipeline stages never have whole logits", options.stages, 1);
  }
}

}  // namespace

bool has_bounded_length(const ModelConfig& config, const ProgramOptions& options) {
  return has_countable_tokens(options.batch) && has_bounded_chunks(options) && has_bounded_passes(config, options);
}

int64_t default_head_chunk_rows(int64_t preferred_rows, int64_t num_tokens) {
  return std::max(preferred_rows, fewest_head_chunk_rows(num_tokens));
}

void require_context_rows(int64_t num_tokens, int64_t context_ranks, int64_t tensor_ranks) {
  const int64_t divisor = context_ranks * std::lcm(int64_t{2}, tensor_ranks);
  if (context_ranks == 1 || num_tokens % divisor == 0) return;
  throw ConfigError("cluster.cp",
                    "cuts the tokens of a micro-batch (train.micro_batch x data.seq_len) into two equal chunks a rank, "
                    "whose rows cluster.tp divides",
                    std::to_string(num_tokens) + " tokens, cluster.cp = " + std::to_string(context_ranks),
                    "a multiple of " + std::to_string(divisor));
}

void require_possible(const ModelConfig& config, const ProgramOptions& options, const BackendSizes& sizes) {
  validate_options(config, options);
  validate_ranks(options);
  validate_context_ranks(options, sizes);
  validate_tensor_ranks(config, options);
  validate_stages(config, options);
}

}  // namespace litespark
