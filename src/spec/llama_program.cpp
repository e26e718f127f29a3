// SPDX-License-Identifier: Apache-2.0
// Assembles a Program: declares the persistent tensors, writes each phase's tape, plans the memory.
#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "core/step_state.h"
#include "spec/communication_tape.h"
#include "spec/flat_tensors.h"
#include "spec/fp8_tensors.h"
#include "spec/llama_emitter.h"
#include "spec/llama_pipeline.h"
#include "spec/optimizer_tape.h"
#include "spec/param_cut.h"
#include "spec/program.h"
#include "spec/sharded_tensors.h"
#include "spec/weight_packing.h"

namespace litespark {
namespace {

void validate_options(const ModelConfig& config, const ProgramOptions& options) {
  const BatchShape& batch = options.batch;
  if (batch.num_tokens <= 0 || batch.num_tokens > INT32_MAX) {
    throw ConfigError("micro_batch", "tokens of a micro-batch out of range", batch.num_tokens, "1 to 2^31 - 1");
  }
  if (batch.max_length <= 0 || batch.max_length > batch.num_tokens) {
    throw ConfigError("seq_len", "out of range", batch.max_length, "1 to the tokens of a micro-batch");
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
  if (options.carries_gradients && (options.accumulates || options.world_ranks() > 1)) {
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
  if (options.world_ranks() == 1) return;
  if (!options.has_training) throw InternalError("ranks", "share training only", options.world_ranks(), 1);
  if (options.has_checksums) {
    throw ConfigError("device.verify_every", "compares the gradients of one rank", options.world_ranks(), "one rank",
                      "set device.verify_every = 0");
  }
}

void validate_tensor_ranks(const ModelConfig& config, const ProgramOptions& options) {
  if (options.tensor_ranks == 1) return;
  require_cut(config, options.tensor_ranks);
  if (options.batch.num_tokens % options.tensor_ranks != 0) {
    throw ConfigError("cluster.tp", "does not divide the tokens of a micro-batch, whose norms its ranks share",
                      options.tensor_ranks, "a divisor of " + std::to_string(options.batch.num_tokens));
  }
  if (config.positions == Positions::kAlibi) {
    throw ConfigError("model.positions", "ALiBi's slopes belong to all heads, of which a tensor-parallel rank has some",
                      "alibi", "rope", "or set cluster.tp = 1");
  }
  if (options.fp8) {
    throw ConfigError("precision.matmul", "8-bit matmuls have no tensor-parallel form yet", "fp8",
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

void validate_stages(const ModelConfig& config, const ProgramOptions& options) {
  if (options.chunks < 1 || (options.stages == 1 && options.chunks > 1)) {
    throw ConfigError("cluster.vpp", "needs several pipeline stages", options.chunks, "1, or set cluster.pp");
  }
  if (options.stages == 1) return;
  require_layers(config, options.stages, options.chunks);
  if (options.micro_batches < 1 || options.accumulates != (options.micro_batches > 1)) {
    throw InternalError("micro_batches", "is not what the options say of accumulation", options.micro_batches,
                        options.accumulates ? "2 or more" : "1");
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
    throw ConfigError("precision.matmul", "8-bit matmuls have no pipeline-parallel form yet", "fp8",
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

TensorId persistent(Program& program, std::string name, DType dtype, Shape shape, Owner owner) {
  return program.tensors.add(
      {.name = std::move(name), .dtype = dtype, .shape = shape, .owner = owner, .storage = Storage::kPersistent});
}

/// `name`: "batch", or that of one more which is on the device at the same time.
BatchTensors declare_batch(Program& program, const BackendSizes& sizes, const std::string& name) {
  constexpr int64_t kAlignment = kTensorAlignment / 4;  // elements
  const BatchShape& batch = program.options.batch;
  const int64_t rows = round_up(batch.num_tokens, kAlignment);
  const int64_t offsets = round_up(batch.max_documents + 1, kAlignment);
  const int64_t size = 3 * rows + offsets + kAlignment;
  const TensorId block = persistent(program, name, DType::kI32, {size}, Owner::kBatch);
  const auto ints = [&](const char* part, int64_t count, int64_t first) {
    return program.tensors.view(block, name + "." + part, {count}, first);
  };
  BatchTensors tensors{.block = block,
                       .staging = {},
                       .ids = ints("ids", batch.num_tokens, 0),
                       .labels = ints("labels", batch.num_tokens, rows),
                       .positions = ints("positions", batch.num_tokens, 2 * rows),
                       .offsets = ints("offsets", batch.max_documents + 1, 3 * rows),
                       .num_documents = ints("num_documents", 1, 3 * rows + offsets)};
  if (sizes.stages_batches()) {
    tensors.staging = persistent(program, name + ".staging", DType::kI32, {2, size}, Owner::kBatch);
  }
  return tensors;
}

void declare_inputs(Program& program, const BackendSizes& sizes) {
  const BatchShape& batch = program.options.batch;
  program.batch = declare_batch(program, sizes, "batch");
  for (int64_t micro = 1; program.options.stages > 1 && micro < program.options.micro_batches; ++micro) {
    program.later_batches.push_back(declare_batch(program, sizes, "batch." + std::to_string(micro)));
  }
  program.state = persistent(program, "state", DType::kU8, {static_cast<int64_t>(sizeof(StepState))}, Owner::kBatch);
  const auto& generation = program.options.generation;
  const int64_t positions = std::max(batch.max_length, generation ? generation->capacity : 0);
  if (program.config.positions == Positions::kRope) {
    program.rope_table =
        persistent(program, "rope_table", DType::kF32, {positions, program.config.head_dim}, Owner::kWeights);
  }
  if (program.options.has_logits) {
    program.logits = persistent(program, "logits", program.options.compute,
                                {batch.num_tokens, program.config.vocab_size}, Owner::kBatch);
  }
}

/// In fp32 without packed copies matmuls read the masters.
void use_masters_as_weights(Program& program) {
  for (ParamTensors& tensors : program.param_tensors) tensors.weight = tensors.master;
}

void declare_params(Program& program, const BackendSizes& sizes) {
  const bool packs = sizes.packs_weights(program.options.compute);
  program.packs = packs;
  if (program.options.world_ranks() > 1) {
    declare_sharded_tensors(program, packs);
  } else {
    declare_flat_tensors(program, packs);
  }
  if (packs) {
    declare_packed_copies(program, sizes);
  } else if (program.options.compute == DType::kF32) {
    use_masters_as_weights(program);
  }
}

void declare_offloaded(Program& program) {
  for (int64_t layer = 0; layer + 1 < program.config.num_hidden_layers; ++layer) {
    program.offloaded.push_back(program.tensors.add(
        {.name = "layers." + std::to_string(layer) + ".offloaded_input",
         .dtype = program.options.residual,
         .shape = {program.options.batch.num_tokens / program.options.tensor_ranks, program.config.hidden_size},
         .owner = Owner::kActivations,
         .storage = Storage::kHost}));
  }
}

void add_train_tape(Program& program, const BackendSizes& sizes, Phase phase) {
  const bool is_first = phase == Phase::kTrainFirst;
  const bool shards_gradients = program.options.shards_gradients;
  const bool is_last = phase == Phase::kTrainLast || !program.options.accumulates;
  Tape tape{std::string(phase_name(phase))};
  LlamaEmitter emitter(program, sizes, tape, program.batch, !is_first && !shards_gradients);
  if (program.options.offloads_activations) emitter.offload_inputs();
  if (program.options.world_ranks() > 1) {
    emitter.meet_ranks(
        {.gathers_weights = is_first, .reduces_gradients = is_last || shards_gradients, .is_first = is_first});
  }
  if (program.options.fp8) emitter.use_fp8();
  const std::vector<BlockActivations> blocks = emitter.forward_blocks();
  const HeadActivations head = emitter.head_and_loss(blocks.back(), true);
  emitter.backward(blocks, head);
  program.tapes.emplace_back(phase, std::move(tape));
}

/// Of a whole replica: a tape for each kind of micro-batch.
void add_train_tapes(Program& program, const BackendSizes& sizes) {
  const ProgramOptions& options = program.options;
  add_train_tape(program, sizes, Phase::kTrainFirst);
  if (!options.accumulates) return;
  add_train_tape(program, sizes, Phase::kTrainNext);
  if (options.world_ranks() > 1 && !options.shards_gradients) add_train_tape(program, sizes, Phase::kTrainLast);
}

void add_forward_tape(Program& program, const BackendSizes& sizes, Phase phase) {
  Tape tape{std::string(phase_name(phase))};
  LlamaEmitter emitter(program, sizes, tape, program.batch, false);
  const std::vector<BlockActivations> blocks = emitter.forward_blocks();
  if (phase == Phase::kLogits) {
    emitter.all_logits(blocks.back());
  } else {
    emitter.head_and_loss(blocks.back(), false);
  }
  program.tapes.emplace_back(phase, std::move(tape));
}

void declare_generation(Program& program) {
  const ModelConfig& config = program.config;
  const GenerationShape& shape = *program.options.generation;
  const auto ints = [&](const char* name, int64_t size) {
    return persistent(program, std::string("generation.") + name, DType::kI32, {size}, Owner::kBatch);
  };
  GenerationTensors& tensors = program.generation;
  tensors.prefill_ids = ints("prefill_ids", shape.sequences * shape.prefill_rows);
  tensors.prefill_positions = ints("prefill_positions", shape.sequences * shape.prefill_rows);
  tensors.decode_ids = ints("decode_ids", shape.sequences);
  tensors.decode_positions = ints("decode_positions", shape.sequences);
  tensors.past_lengths = ints("past_lengths", shape.sequences);
  tensors.logits = persistent(program, "generation.logits", program.options.compute,
                              {shape.sequences, config.vocab_size}, Owner::kBatch);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    tensors.caches.push_back(persistent(
        program, "layers." + std::to_string(layer) + ".cache", program.options.compute,
        {shape.sequences, shape.capacity, 2 * config.num_key_value_heads * config.head_dim}, Owner::kKvCache));
  }
}

void add_generation_tape(Program& program, const BackendSizes& sizes, Phase phase) {
  const GenerationTensors& tensors = program.generation;
  const bool is_prefill = phase == Phase::kPrefill;
  Tape tape{std::string(phase_name(phase))};
  LlamaEmitter emitter(program, sizes, tape,
                       {.ids = is_prefill ? tensors.prefill_ids : tensors.decode_ids,
                        .positions = is_prefill ? tensors.prefill_positions : tensors.decode_positions},
                       false);
  emitter.last_logits(emitter.forward_blocks().back(), program.options.generation->sequences);
  program.tapes.emplace_back(phase, std::move(tape));
}

/// A step, and what several ranks run between steps.
void add_training_tapes(Program& program, const BackendSizes& sizes) {
  const ProgramOptions& options = program.options;
  if (options.offloads_activations) declare_offloaded(program);
  if (options.stages > 1) {
    program.tapes.emplace_back(Phase::kTrainStep, make_train_step_tape(program, sizes));
  } else {
    add_train_tapes(program, sizes);
  }
  if (options.has_checksums) program.tapes.emplace_back(Phase::kChecksum, make_checksum_tape(program));
  if (options.checks_replicas && options.data_ranks > 1) {
    program.tapes.emplace_back(Phase::kReplicas, make_replica_tape(program));
  }
  program.tapes.emplace_back(Phase::kOptimizer, make_optimizer_tape(program));
  if (program.copies.has_value()) {
    program.tapes.emplace_back(Phase::kSynchronise, make_synchronise_tape(program));
  }
  if (options.world_ranks() > 1) {
    program.tapes.emplace_back(Phase::kGather, make_gather_tape(program));
    program.tapes.emplace_back(Phase::kSumState, make_sum_state_tape(program));
  }
}

void add_forward_tapes(Program& program, const BackendSizes& sizes) {
  const ProgramOptions& options = program.options;
  if (options.stages > 1) {
    program.tapes.emplace_back(Phase::kEval, make_stage_eval_tape(program, sizes));
  } else {
    add_forward_tape(program, sizes, Phase::kEval);
  }
  if (options.has_logits) add_forward_tape(program, sizes, Phase::kLogits);
  if (options.generation) {
    add_generation_tape(program, sizes, Phase::kPrefill);
    add_generation_tape(program, sizes, Phase::kDecode);
  }
}

}  // namespace

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kPack: return "pack";
    case Phase::kTrainFirst: return "train_first";
    case Phase::kTrainNext: return "train_next";
    case Phase::kTrainLast: return "train_last";
    case Phase::kTrainStep: return "train_step";
    case Phase::kChecksum: return "checksum";
    case Phase::kReplicas: return "replicas";
    case Phase::kOptimizer: return "optimizer";
    case Phase::kSynchronise: return "synchronise";
    case Phase::kGather: return "gather";
    case Phase::kSumState: return "sum_state";
    case Phase::kEval: return "eval";
    case Phase::kLogits: return "logits";
    case Phase::kPrefill: return "prefill";
    case Phase::kDecode: return "decode";
  }
  throw InternalError("phase_name", "unknown phase", static_cast<int>(phase), "a Phase");
}

void ProgramOptions::take_place(int64_t rank) {
  tensor_rank = rank % tensor_ranks;
  data_rank = rank / tensor_ranks % data_ranks;
  stage = rank / tensor_ranks / data_ranks;
}

const Tape* Program::tape(Phase phase) const {
  for (const auto& [key, value] : tapes) {
    if (key == phase) return &value;
  }
  return nullptr;
}

Program make_llama_program(const ModelConfig& config, const ProgramOptions& options, const BackendSizes& sizes) {
  config.validate();
  validate_options(config, options);
  validate_ranks(options);
  validate_tensor_ranks(config, options);
  validate_stages(config, options);
  Program program{.config = config, .options = options};
  program.options.shards_gradients = options.shards_gradients && options.data_ranks > 1;
  if (options.data_ranks == 1) program.options.sync_small_every = 1;
  if (options.data_ranks == 1) program.options.compression = Compression::kNone;
  program.rank_config = cut_model(config, options.tensor_ranks);
  program.sizes_are_exact = sizes.exact();
  program.beyond_plan_bytes = sizes.beyond_plan_bytes();
  if (options.head_chunk_rows == 0) {
    program.options.head_chunk_rows = sizes.preferred_head_chunk_rows(program.rank_config.vocab_size);
  }
  program.whole_params = make_param_table(config);
  program.layers = layers_of_stage(config, options.stage_place(), options.batch.max_length);
  program.params = stage_params(
      cut_param_table(program.whole_params, config, {.ranks = options.tensor_ranks, .rank = options.tensor_rank}),
      options.stage_place(), program.layers, config);
  declare_inputs(program, sizes);
  declare_params(program, sizes);
  declare_step_sums(program);
  if (options.generation) declare_generation(program);
  if (options.fp8) declare_fp8_tensors(program, sizes);

  program.tapes.emplace_back(Phase::kPack, make_pack_tape(program));
  if (options.has_training) add_training_tapes(program, sizes);
  add_forward_tapes(program, sizes);

  std::vector<PhaseLifetimes> phases;
  for (const auto& [phase, tape] : program.tapes) {
    phases.push_back(tape_lifetimes(tape, program.tensors, takes_gradients(phase)));
  }
  program.memory.emplace(program.tensors, phases);
  return program;
}

}  // namespace litespark
