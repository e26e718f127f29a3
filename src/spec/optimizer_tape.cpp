// SPDX-License-Identifier: Apache-2.0
#include "spec/optimizer_tape.h"

#include <algorithm>

#include "core/checked.h"
#include "spec/communication_tape.h"
#include "spec/fp8_tensors.h"
#include "spec/weight_packing.h"

namespace litespark {
namespace {

struct Piece {
  int64_t first = 0;  ///< within a flat tensor, in elements
  int64_t count = 0;
};

/// The square sum of a flat tensor's pieces, which are in order, but not of what pads them: one op a stretch without a
/// gap, which counts `factor` times. `partials`: scratch that suffices, or absent.
void push_square_sums(Tape& tape, Program& program, TensorId flat, const std::vector<Piece>& pieces, TensorId partials,
                      double factor) {
  Piece stretch;
  const auto push = [&] {
    if (stretch.count == 0) return;
    const std::string name = program.tensors[flat].name + ".stretch." + std::to_string(stretch.first);
    const TensorId scratch = partials.has_value()
                                 ? partials
                                 : program.tensors.add({.name = name + ".partials",
                                                        .dtype = DType::kF64,
                                                        .shape = {ceil_div(stretch.count, op::kSquareSumBlock)},
                                                        .owner = Owner::kScratch,
                                                        .storage = Storage::kArena});
    const TensorId gradient = program.tensors.view(flat, name, {stretch.count}, stretch.first);
    tape.push(op::GradientSquareSum<TensorId>{
        .state = program.state, .gradient = gradient, .partials = scratch, .factor = factor});
  };
  for (const Piece& piece : pieces) {
    if (piece.count == 0) continue;
    if (piece.first != stretch.first + stretch.count) {
      push();
      stretch = {.first = piece.first};
    }
    stretch.count += piece.count;
  }
  push();
}

Piece piece_of(const Program& program, TensorId gradient) {
  const TensorInfo& view = program.tensors[gradient];
  return {.first = view.offset_bytes / dtype_bytes(view.dtype), .count = view.shape.num_elements()};
}

/// Of all gradients that lie in `flat`.
void push_flat_norm(Tape& tape, Program& program, TensorId flat) {
  if (!flat.has_value()) return;
  std::vector<Piece> pieces;
  for (size_t index = program.param_tensors.size(); index-- > 0;) {
    const TensorId gradient = program.param_tensors[index].gradient;
    if (program.tensors.root(gradient).first == flat) pieces.push_back(piece_of(program, gradient));
  }
  push_square_sums(tape, program, flat, pieces, {}, 1);
}

/// Elements of a shard, from its first on, that the global norm counts on this rank.
int64_t num_counted(const ParamSpec& spec, const ParamShard& shard) {
  if (spec.is_counted_elsewhere) return 0;
  if (!spec.cut) return shard.count;
  return std::clamp<int64_t>(spec.cut->num_counted - shard.first, 0, shard.count);
}

/// A rank's own gradient of what it updates by itself is a part of the sum over data ranks: this many times it stands
/// for the whole.
double gradient_factor(const Program& program, const Bucket& bucket) {
  return bucket.is_copied ? real(program.options.data_ranks) : 1.0;
}

/// Every rank's square sum of what it owns, and the step's message. Of what all ranks update by themselves the mean of
/// their squares counts: the square of `gradient_factor` x the gradient, over the number of ranks. The scratch has the
/// same size on every rank, however its pieces fall.
void push_shared_norm(Tape& tape, Program& program) {
  int64_t largest = 0;
  for (const Bucket& bucket : program.buckets) {
    largest = std::max(largest, bucket.is_copied ? bucket.size : bucket.size / program.options.data_ranks);
  }
  const TensorId partials = program.tensors.add({.name = "optimizer.norm_partials",
                                                 .dtype = DType::kF64,
                                                 .shape = {ceil_div(largest, op::kSquareSumBlock)},
                                                 .owner = Owner::kScratch,
                                                 .storage = Storage::kPersistent});
  for (const Bucket& bucket : program.buckets) {
    std::vector<Piece> pieces;
    for (const int64_t param : bucket.params) {
      const ParamShard& shard = program.shards[static_cast<size_t>(param)];
      if (shard.count == 0) continue;
      pieces.push_back(piece_of(program, shard.tensors.gradient));
      pieces.back().count = num_counted(program.params.params[static_cast<size_t>(param)], shard);
    }
    push_square_sums(tape, program, bucket.is_copied ? bucket.gradient : bucket.shard.gradient, pieces, partials,
                     gradient_factor(program, bucket));
  }
  sum_state(tape, program);
}

void push_update(Tape& tape, const Program& program, size_t index, double factor) {
  const ParamSpec& spec = program.params.params[index];
  const ParamShard& shard = program.shards[index];
  if (shard.count == 0) return;
  const ParamTensors& tensors = shard.tensors;
  const AdamWOptions& adamw = program.options.adamw;
  const ParamTensors& tensors_of_param = program.param_tensors[index];
  const bool has_copy = tensors.weight.has_value() && tensors.weight != tensors.master;
  tape.push(op::AdamW<TensorId>{
      .master = tensors.master,
      .first_moment = tensors.first_moment,
      .second_moment = tensors.second_moment,
      .weight = has_copy ? tensors.weight : TensorId{},
      .remainder = tensors.remainder,
      .gradient = tensors.gradient,
      .state = program.state,
      .abs_max = optimizer_measures_weights(program) ? tensors_of_param.fp8.slot.abs_max : TensorId{},
      .beta1 = adamw.beta1,
      .beta2 = adamw.beta2,
      .eps = adamw.eps,
      .weight_decay = spec.is_decayed ? adamw.weight_decay : 0.0,
      .gradient_factor = factor,
      .seed = adamw.seed,
      .first_element = spec.flat_offset + shard.first});
}

}  // namespace

Tape make_pack_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kPack))};
  tape.enter("optimizer.pack");
  push_resident_packs(tape, program);
  push_fp8_weights(tape, program);
  return tape;
}

Tape make_measure_tape(const Program& program) {
  Tape tape{std::string(phase_name(Phase::kMeasure))};
  tape.enter("optimizer.pack");
  push_fp8_magnitudes(tape, program);
  return tape;
}

Tape make_checksum_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kChecksum))};
  tape.enter("check.gradients");
  const std::vector<ParamSpec>& params = program.params.params;
  program.checksums = program.tensors.add({.name = "checksums",
                                           .dtype = DType::kI64,
                                           .shape = {std::ssize(params)},
                                           .owner = Owner::kScratch,
                                           .storage = Storage::kPersistent});
  for (int64_t p = 0; p < std::ssize(params); ++p) {
    const auto index = static_cast<size_t>(p);
    const TensorId out = program.tensors.view(program.checksums, params[index].name + ".checksum", {1}, p);
    tape.push(op::Checksum<TensorId>{.out = out, .x = program.param_tensors[index].gradient});
  }
  return tape;
}

Tape make_optimizer_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kOptimizer))};
  const AdamWOptions& adamw = program.options.adamw;
  tape.enter("optimizer.norm");
  push_flat_norm(tape, program, program.flat.gradient);
  push_flat_norm(tape, program, program.flat.gradient_bf16);
  if (!program.buckets.empty()) push_shared_norm(tape, program);
  tape.push(op::StepDecision<TensorId>{.state = program.state, .beta1 = adamw.beta1, .beta2 = adamw.beta2});
  if (program.residual.has_value()) {
    tape.push(op::DropResidual<TensorId>{.residual = program.residual, .state = program.state});
  }
  tape.enter("optimizer.update");
  if (optimizer_measures_weights(program)) {
    tape.push(op::Clear<TensorId>{.x = program.fp8.weight_abs_max, .state = program.state});
  }
  if (program.buckets.empty()) {
    for (size_t index = program.params.params.size(); index-- > 0;) push_update(tape, program, index, 1);
  }
  for (const Bucket* bucket : forward_order(program)) {
    for (const int64_t param : bucket->params) {
      push_update(tape, program, static_cast<size_t>(param), gradient_factor(program, *bucket));
    }
    if (is_gathered_early(program, *bucket)) start_gather(tape, program, *bucket);
  }
  tape.enter("optimizer.gather");
  for (const Bucket* bucket : forward_order(program)) {
    if (is_gathered_early(program, *bucket)) await_gather(tape, program, *bucket);
  }
  return tape;
}

}  // namespace litespark
