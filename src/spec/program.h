// SPDX-License-Identifier: Apache-2.0
// Program: everything that is known of a run before memory exists. Tensors, parameters, one tape a phase and the memory
// plan that follows from them. The planner prints it; the trainer binds it to a backend and runs it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/backend_sizes.h"
#include "core/compression.h"
#include "core/memory_plan.h"
#include "spec/fp8_scaling.h"
#include "spec/master_weights.h"
#include "spec/model_config.h"
#include "spec/param_table.h"
#include "spec/recompute.h"
#include "spec/stage_layers.h"
#include "spec/tape.h"

namespace litespark {

/// Capacity of one micro-batch: N tokens of at most `max_documents` documents, none longer than `max_length`.
struct BatchShape {
  int64_t num_tokens = 0;
  int64_t max_documents = 0;
  int64_t max_length = 0;
  bool uniform = false;  ///< every document has max_length tokens and the batch is always full
};

/// Sequences that grow together, and how far.
struct GenerationShape {
  int64_t sequences = 1;      ///< B
  int64_t capacity = 0;       ///< tokens a sequence may reach, prompt included
  int64_t prefill_rows = 64;  ///< tokens a sequence that one kPrefill takes
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  uint64_t seed = 0;  ///< of stochastic rounding
};

/// Matmuls of the blocks on 8-bit floats, forward and backward; the head stays in the compute dtype.
struct Fp8Options {
  DType gradient = DType::kE4M3;  ///< of the copies of gradients; inputs and weights are e4m3
  Fp8Scaling scaling = Fp8Scaling::kTensor;
  bool allows_emulation = false;  ///< also where the backend only computes what 8-bit matmuls would give
};

/// Attention's forward on 8-bit floats; its backward stays in the compute dtype.
struct Fp8AttentionOptions {
  bool allows_emulation = false;  ///< as for matmuls
};

struct ProgramOptions {
  BatchShape batch;
  DType compute = DType::kF32;   ///< matmul and attention operands
  DType residual = DType::kF32;  ///< residual stream and its gradient
  Recompute recompute = Recompute::kNone;
  int64_t recompute_every = 1;  ///< layers between kept residuals for kEveryK
  /// A step has several micro-batches: also make the tape of those after the first, where they are not on one tape.
  bool accumulates = false;
  bool has_training = true;      ///< gradients, optimizer, train tapes
  bool has_checksums = false;    ///< a phase that makes checksums of the gradients
  bool checks_replicas = false;  ///< a phase in which data ranks tell each other checksums of what all must have
  bool has_logits = false;       ///< a phase that leaves all logits in a persistent tensor
  int64_t head_chunk_rows = 0;   ///< rows of logits that exist at a time; 0: as BackendSizes prefers, or more
  double z_loss = 0;             ///< coefficient of log_sum_exp^2
  MasterWeights master = MasterWeights::kF32;
  DType moments = DType::kF32;
  /// Of the blocks' matrices, bf16 without accumulation only; every other gradient is a sum of several ops and f32.
  DType gradient = DType::kF32;
  /// Their memory is free but from backward to the optimizer: one micro-batch a step, one rank.
  bool carries_gradients = false;
  bool offloads_activations = false;  ///< what kBlock keeps waits for backward in host memory
  AdamWOptions adamw;
  /// Where the backend wants packed copies: each is made in front of the product that reads it, and none stays.
  bool packs_on_use = false;
  std::optional<Fp8Options> fp8;                     ///< in the train phases; absent: all matmuls in the compute dtype
  std::optional<Fp8AttentionOptions> fp8_attention;  ///< in the train phases; absent: attention in the compute dtype
  std::optional<GenerationShape> generation;         ///< phases kPrefill and kDecode with their cache
  int64_t data_ranks = 1;                            ///< ranks that train on tokens of their own, ZeRO-1 among them
  int64_t data_rank = 0;                             ///< which of them this is; sizes and offsets do not depend on it
  /// So many data ranks in a row, a divisor of them, share the rows of each micro-batch; 1: each has its own.
  int64_t context_ranks = 1;
  /// Norms and biases: every data rank updates copies of its own by its own gradients, and Phase::kSynchronise brings
  /// them together every so many steps. 1: they are reduced in every step like all others.
  int64_t sync_small_every = 1;
  /// ZeRO-2: gradients are reduced in every micro-batch, and between them each data rank keeps its pieces of the sum.
  bool shards_gradients = false;
  /// How data ranks tell each other gradients; what rounding takes away each keeps for the next message, or loses.
  Compression compression = Compression::kNone;
  bool has_error_feedback = true;
  int64_t tensor_ranks = 1;  ///< ranks that share the weights and work of each data rank
  int64_t tensor_rank = 0;   ///< which of them this is; sizes do not depend on it
  /// In which tensor-parallel ranks exchange rows, beside the products that read or make them; 1 where they do not
  /// divide a rank's rows.
  int64_t tensor_stretches = 2;
  /// Most elements that several matrices of a layer have in one bucket; 0: by the model (spec/sharded_tensors.h).
  int64_t bucket_elements = 0;

  int64_t stages = 1;  ///< of the pipeline: ranks that hold different layers of a replica, each data_ranks x
                       ///< tensor_ranks times
  int64_t stage = 0;   ///< which of them this is; sizes and tapes depend on it
  int64_t chunks = 1;  ///< ranges of layers that each stage holds
  std::vector<int64_t> range_layers;  ///< of all stages' ranges in the model's order; empty: by their work
  int64_t micro_batches = 1;  ///< of a step, which several stages must know: they work on more than one at a time

  /// One rank in all, which takes the way of several: it tells itself gradients, weights and the step's message.
  bool meets_itself = false;

  /// Whether there are tapes on which ranks meet, and on them ranks that share masters and moments.
  bool meets_ranks() const { return world_ranks() > 1 || meets_itself; }
  bool meets_data_ranks() const { return data_ranks > 1 || meets_itself; }
  /// Groups of data ranks that take micro-batches of their own, which of them this rank is in, and where in it.
  int64_t replicas() const { return data_ranks / context_ranks; }
  int64_t replica() const { return data_rank / context_ranks; }
  int64_t context_rank() const { return data_rank % context_ranks; }
  /// Rows of a micro-batch that this rank works on.
  int64_t rank_tokens() const { return batch.num_tokens / context_ranks; }
  /// Of the whole run. Ranks that talk most are neighbours: first those of one replica's stage, then those with the
  /// same stage, of which those that share micro-batches come first, and stages last.
  int64_t world_ranks() const { return stages * data_ranks * tensor_ranks; }
  int64_t world_rank() const { return rank_of(data_rank); }
  /// The rank with this one's stage and part of the weights that trains on other data.
  int64_t rank_of(int64_t data) const { return (stage * data_ranks + data) * tensor_ranks + tensor_rank; }
  /// Makes these the options of one of world_ranks() ranks.
  void take_place(int64_t rank);
  StagePlace stage_place() const { return {.stages = stages, .stage = stage, .chunks = chunks}; }
};

enum class Phase : uint8_t {
  kPack,         ///< copies of weights that stay, in a matmul library's layout or 8 bits; after loading and each step
  kMeasure,      ///< largest magnitudes of the weights that kPack brings to 8 bits; after loading, where the optimizer
                 ///< measures them from then on
  kTrainFirst,   ///< forward and backward of a step's first micro-batch: gradients overwritten
  kTrainNext,    ///< of the others: gradients accumulated
  kTrainLast,    ///< of the last, where ranks accumulate: gradients accumulated, and reduced over ranks on the way
  kTrainStep,    ///< with several stages, in place of these three: this stage's part of all of a step's micro-batches
  kChecksum,     ///< a checksum of every gradient
  kReplicas,     ///< checksums of what data ranks have in common, told to all
  kOptimizer,    ///< norm, decision, AdamW
  kSynchronise,  ///< ranks' own copies of norms and biases become their mean; with sync_small_every > 1
  kGather,       ///< every rank's weights made whole, for whatever looks at them between steps
  kSumState,     ///< losses and token counts summed over ranks, after an evaluation that they shared
  kEval,         ///< forward and loss
  kLogits,       ///< forward, all logits kept
  kPrefill,      ///< prefill_rows tokens of each sequence into the KV cache, logits of the last of them
  kDecode,       ///< one token of each sequence, its logits
};
std::string_view phase_name(Phase phase);
/// Whether a phase reads gradients that another one wrote.
constexpr bool takes_gradients(Phase phase) {
  return phase == Phase::kChecksum || phase == Phase::kOptimizer;
}

/// What an [R, C] tensor is brought to 8 bits with: as op::QuantizeFp8 names them. The column ones only with
/// Fp8Scaling::kRow.
struct Fp8Slot {
  TensorId abs_max, column_abs_max, scale, column_scale;
};

/// The 8-bit copies of a weight [O, I]: what forward reads, and the transposed one [I, O] that backward reads.
struct Fp8Weight {
  TensorId copy, transposed;
  Fp8Slot slot;
};

/// Tensors of a block that are brought to 8 bits: inputs of its linear layers, and gradients of their outputs.
enum class Fp8Site : uint8_t {
  kQkvInput,
  kOutputInput,
  kGateUpInput,
  kDownInput,
  kQkvGradient,
  kOutputGradient,
  kGateUpGradient,
  kDownGradient,
};
inline constexpr size_t kNumFp8Sites = 8;
constexpr bool is_gradient(Fp8Site site) {
  return site >= Fp8Site::kQkvGradient;
}

/// Scales of 8-bit copies and the magnitudes that they follow from, made anew in every micro-batch: no history.
struct Fp8Tensors {
  TensorId abs_max, scale;                                ///< hold all of the sites' slots
  TensorId weight_abs_max, weight_scale;                  ///< hold all of the weights' slots
  std::vector<std::array<Fp8Slot, kNumFp8Sites>> layers;  ///< a layer's slots, by Fp8Site
  TensorId attention_abs_max, attention_scale;            ///< hold the slots of rotated queries, keys and values
  std::vector<Fp8Slot> attention;                         ///< a layer's slot
};

/// The tensors that hold one parameter, [param shape] each.
struct ParamTensors {
  TensorId master;        ///< f32; absent when weight and remainder, or weight alone, stand in its place, or in shards
  TensorId gradient;      ///< f32 or bf16; training only
  TensorId first_moment;  ///< f32 or bf16; training only
  TensorId second_moment;
  TensorId weight;           ///< what matmuls read: master itself, bf16, or absent when packed beside a master
  TensorId remainder;        ///< u16, MasterWeights::kBF16Remainder
  TensorId residual;         ///< f32: what this rank has not told others of its gradients yet; with error feedback
  TensorId packed_forward;   ///< bytes, present when the backend packs and copies stay
  TensorId packed_backward;  ///< training only
  Fp8Weight fp8;             ///< of the blocks' matrices, with ProgramOptions::fp8
};

/// The elements of one parameter that this rank updates; the whole of it where there is one rank.
struct ParamShard {
  int64_t first = 0;  ///< within the parameter
  int64_t count = 0;
  ParamTensors tensors;  ///< [count] each, or absent when count is 0
};

/// Parameters whose gradients are reduced over ranks in one call and whose weights are gathered in one: a layer's
/// matrices or some of them, the head, the embedding, and all norms and biases together. Every rank owns an equal piece
/// of each.
struct Bucket {
  std::string name;
  int64_t layer = -1;            ///< -1 outside the blocks
  std::vector<int64_t> params;   ///< rows of the table, as they lie in the bucket
  std::vector<int64_t> offsets;  ///< where each begins, in elements
  int64_t size = 0;              ///< elements, a multiple of data_ranks kShardAlignment
  bool is_compressed = false;    ///< its gradients are told in 16 bits (ProgramOptions::compression)
  bool is_copied = false;        ///< every rank updates all of it by itself (ProgramOptions::sync_small_every)
  TensorId gradient;             ///< [size]; absent with ProgramOptions::shards_gradients, unless it is copied
  TensorId residual;             ///< [size] f32, of the gradients that this rank tells; with error feedback
  ParamTensors shard;            ///< this rank's piece, [size / data_ranks]
  /// What other ranks' updates must reach: a whole tensor [size] and this rank's piece of it.
  struct Gathered {
    TensorId whole, piece;
  };
  std::vector<Gathered> gathered;
};

/// Elements: pieces of a bucket start at multiples of it.
inline constexpr int64_t kShardAlignment = 4096;

/// What the loader fills for each micro-batch. N: this rank's rows of it (op::context_chunk); offsets are of all rows.
struct BatchTensors {
  TensorId block;          ///< i32, holds all of the others, so that one copy brings them
  TensorId staging;        ///< [2, block]: where the next batches travel to; absent where the backend needs none
  TensorId ids;            ///< [N] i32
  TensorId labels;         ///< [N] i32, already shifted; op::kIgnoredLabel where nothing is scored
  TensorId positions;      ///< [N] i32, restarting in every document
  TensorId offsets;        ///< [max_documents + 1] i32
  TensorId num_documents;  ///< [1] i32
};

/// What generation reads and leaves.
struct GenerationTensors {
  TensorId prefill_ids, prefill_positions;  ///< [B prefill_rows] i32
  TensorId decode_ids, decode_positions;    ///< [B] i32
  TensorId past_lengths;                    ///< [B] i32: rows of the cache that are filled before a phase runs
  TensorId logits;                          ///< [B, V]
  std::vector<TensorId> caches;             ///< one a layer, [B, capacity, 2 K D]
};

/// With one rank: flat parents of the per-parameter views, each in flat order (ParamSpec::flat_offset). One that holds
/// all parameters has exactly those offsets; one that holds some of them leaves no gaps for the others. With several
/// they are Program::buckets.
struct FlatTensors {
  TensorId master;         ///< f32: of all parameters, or of norms and biases
  TensorId weight;         ///< bf16, of matrices: compute copies where the backend does not pack, or the weights
  TensorId remainder;      ///< u16, of matrices
  TensorId gradient;       ///< f32: of all parameters, or of those outside the blocks, norms and biases
  TensorId gradient_bf16;  ///< of the blocks' matrices
  TensorId first_moment, second_moment;  ///< of all parameters
};

/// What all data ranks must have, bit for bit, while a step's gradients are there: weights in every form that forward
/// reads, and what steps are decided from.
struct ReplicaTensors {
  std::vector<TensorId> tensors;
  TensorId checksums, checksums_of_rank;  ///< [data ranks, tensors] i64, and this rank's row of it
};

struct Program {
  ModelConfig config;
  ProgramOptions options;
  bool sizes_are_exact = false;     ///< BackendSizes::exact of the sizes it was built with
  int64_t beyond_plan_bytes = 0;    ///< BackendSizes::beyond_plan_bytes of the same
  bool packs = false;               ///< matmuls read packed copies of weights
  ModelConfig rank_config;          ///< heads, F and V that this rank computes; `config` with one tensor-parallel rank
  std::vector<StageLayers> layers;  ///< that this rank's stage holds: a range for each of its chunks
  ParamTable params;                ///< as this rank stores them
  ParamTable whole_params;          ///< the model's, the same rows and those of other stages: what files hold
  TensorTable tensors;
  std::vector<ParamTensors> param_tensors;  ///< one an entry of params.params
  std::vector<ParamShard> shards;           ///< one an entry of params.params: what the optimizer updates
  std::vector<Bucket> buckets;              ///< in the order in which backward finishes them; empty where nobody is met
  /// Masters, then first, then second moments of the buckets that ranks copy, of equal sizes; absent where none is.
  TensorId copies;
  TensorId residual;  ///< f32, holds those of all buckets; absent without error feedback
  FlatTensors flat;
  BatchTensors batch;                       ///< of the micro-batch; of several on the device at once the first
  std::vector<BatchTensors> later_batches;  ///< with several stages: of the step's other micro-batches
  TensorId state;                           ///< StepState as bytes
  /// [world ranks, op::kNumStepSums] f64 and this rank's row of it; several ranks only.
  TensorId step_sums, step_sums_of_rank;
  TensorId
      rope_table;   ///< [max_length or the generation's capacity, the larger, D] in rope_table_dtype; absent with ALiBi
  TensorId logits;  ///< [N, V] f32 or bf16 for kLogits
  ReplicaTensors replicas;  ///< for kReplicas
  TensorId checksums;       ///< [parameters] i64 for kChecksum, in table order
  GenerationTensors generation;
  Fp8Tensors fp8;                   ///< with ProgramOptions::fp8 and fp8_attention
  std::vector<TensorId> offloaded;  ///< [N, C] in host memory: inputs of all blocks but the last
  std::vector<std::pair<Phase, Tape>> tapes;
  std::optional<MemoryPlan> memory;

  /// Those of a step's `index`-th micro-batch.
  const BatchTensors& batch_of(int64_t index) const {
    return index == 0 ? batch : later_batches.at(static_cast<size_t>(index - 1));
  }
  /// The row of `params` that stores a row of `whole_params`; nullopt where another stage does.
  std::optional<int64_t> held_param(int64_t whole) const {
    const ParamSpec& spec = whole_params.params.at(static_cast<size_t>(whole));
    return params.find(spec.role, spec.layer);
  }
  /// The tape of a phase; nullptr when the options did not ask for it.
  const Tape* tape(Phase phase) const;
};

/// Builds all phases of a Llama-family model. Throws ConfigError for impossible options.
Program make_llama_program(const ModelConfig& config, const ProgramOptions& options, const BackendSizes& sizes);

}  // namespace litespark
