// SPDX-License-Identifier: Apache-2.0
// Assembles a Program: declares the persistent tensors, writes each phase's tape, plans the memory.
#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "core/step_state.h"
#include "spec/communication_tape.h"
#include "spec/flat_tensors.h"
#include "spec/fp8_attention.h"
#include "spec/fp8_tensors.h"
#include "spec/llama_emitter.h"
#include "spec/llama_pipeline.h"
#include "spec/llama_program_checks.h"
#include "spec/optimizer_tape.h"
#include "spec/param_cut.h"
#include "spec/program.h"
#include "spec/sharded_tensors.h"
#include "spec/weight_packing.h"

namespace litespark {
namespace {

TensorId persistent(Program& program, std::string name, DType dtype, Shape shape, Owner owner) {
  return program.tensors.add(
      {.name = std::move(name), .dtype = dtype, .shape = shape, .owner = owner, .storage = Storage::kPersistent});
}

/// `name`: "batch", or that of one more which is on the device at the same time.
BatchTensors declare_batch(Program& program, const BackendSizes& sizes, const std::string& name) {
  constexpr int64_t kAlignment = kTensorAlignment / 4;  // elements
  const BatchShape& batch = program.options.batch;
  const int64_t num_rows = program.options.rank_tokens();
  const int64_t rows = round_up(num_rows, kAlignment);
  const int64_t offsets = round_up(batch.max_documents + 1, kAlignment);
  const int64_t size = 3 * rows + offsets + kAlignment;
  const TensorId block = persistent(program, name, DType::kI32, {size}, Owner::kBatch);
  const auto ints = [&](const char* part, int64_t count, int64_t first) {
    return program.tensors.view(block, name + "." + part, {count}, first);
  };
  BatchTensors tensors{.block = block,
                       .staging = {},
                       .ids = ints("ids", num_rows, 0),
                       .labels = ints("labels", num_rows, rows),
                       .positions = ints("positions", num_rows, 2 * rows),
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
    program.rope_table = persistent(program, "rope_table", rope_table_dtype(program.config.rope),
                                    {positions, program.config.head_dim}, Owner::kWeights);
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
  if (program.options.meets_ranks()) {
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
         .shape = {program.options.rank_tokens() / program.options.tensor_ranks, program.config.hidden_size},
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
  if (program.options.meets_ranks()) {
    emitter.meet_ranks(
        {.gathers_weights = is_first, .reduces_gradients = is_last || shards_gradients, .is_first = is_first});
  }
  if (program.options.fp8) emitter.use_fp8();
  if (program.options.fp8_attention) emitter.use_fp8_attention();
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
  if (options.meets_ranks() && !options.shards_gradients) add_train_tape(program, sizes, Phase::kTrainLast);
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
  if (options.meets_ranks()) {
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
    case Phase::kMeasure: return "measure";
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
  require_possible(config, options, sizes);
  Program program{.config = config, .options = options};
  program.options.shards_gradients = options.shards_gradients && options.data_ranks > 1;
  if (options.data_ranks == 1) program.options.sync_small_every = 1;
  if (options.data_ranks == 1) program.options.compression = Compression::kNone;
  program.rank_config = cut_model(config, options.tensor_ranks);
  program.sizes_are_exact = sizes.exact();
  program.beyond_plan_bytes = sizes.beyond_plan_bytes();
  if (options.head_chunk_rows == 0) {
    program.options.head_chunk_rows = default_head_chunk_rows(
        sizes.preferred_head_chunk_rows(program.rank_config.vocab_size), options.batch.num_tokens);
  }
  program.whole_params = make_param_table(config);
  program.layers = layers_of_stage(config, options.stage_place(), options.batch.max_length, options.range_layers);
  program.params = stage_params(
      cut_param_table(program.whole_params, config, {.ranks = options.tensor_ranks, .rank = options.tensor_rank}),
      options.stage_place(), program.layers, config);
  declare_inputs(program, sizes);
  declare_params(program, sizes);
  declare_step_sums(program);
  if (options.generation) declare_generation(program);
  if (options.fp8) declare_fp8_tensors(program, sizes);
  if (options.fp8_attention) declare_fp8_attention(program, sizes);

  program.tapes.emplace_back(Phase::kPack, make_pack_tape(program));
  if (optimizer_measures_weights(program)) program.tapes.emplace_back(Phase::kMeasure, make_measure_tape(program));
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
