// SPDX-License-Identifier: Apache-2.0
#include "spec/communication_tape.h"

#include <algorithm>

#include "core/checked.h"
#include "core/step_state.h"

namespace litespark {
namespace {

int index_of(const Program& program, const Bucket& bucket) {
  return static_cast<int>(&bucket - program.buckets.data());
}

/// Calls of one tape: reductions first, then each bucket's gathers, then the message.
int reduction_call(const Program& program, const Bucket& bucket) {
  return index_of(program, bucket);
}

int gather_call(const Program& program, const Bucket& bucket, size_t which) {
  return static_cast<int>(program.buckets.size()) * (1 + static_cast<int>(which)) + index_of(program, bucket);
}

int sums_call(const Program& program) {
  return static_cast<int>(program.buckets.size()) * 3;
}

int tensor_call(const Program& program, int number) {
  return sums_call(program) + 1 + number;
}

int context_call(const Program& program, int number) {
  return tensor_call(program, TensorCall::kMostUnderWay) + number;
}

int stage_call(const Program& program, int number) {
  return context_call(program, ContextCall::kMostUnderWay) + number;
}

int num_ranks(const Program& program) {
  return static_cast<int>(program.options.data_ranks);
}

/// Whether ranks have the same weights and other tokens.
bool has_data_peers(const Program& program) {
  return program.options.meets_data_ranks();
}

/// Stretches of the state that all ranks decide from or have decided; what is between them is each rank's own.
std::vector<TensorId> replicated_state(Program& program) {
  const auto part = [&](const char* name, size_t first, size_t end) {
    return program.tensors.view(program.state, name, {static_cast<int64_t>(end - first)}, static_cast<int64_t>(first));
  };
  return {part("state.inputs", 0, offsetof(StepState, loss_sum)),
          part("state.outcome", offsetof(StepState, gradient_norm), offsetof(StepState, copy_drift))};
}

/// Pieces that one rank alone has are in nobody's copy until they are gathered.
std::vector<TensorId> replicated_tensors(Program& program) {
  std::vector<TensorId> all;
  for (const ParamTensors& tensors : program.param_tensors) {
    for (const TensorId id : {tensors.master, tensors.weight, tensors.remainder, tensors.packed_forward,
                              tensors.packed_backward, tensors.fp8.copy, tensors.fp8.transposed}) {
      if (id.has_value() && (all.empty() || all.back() != id)) all.push_back(id);
    }
  }
  if (program.rope_table.has_value()) all.push_back(program.rope_table);
  const std::vector<TensorId> state = replicated_state(program);
  all.insert(all.end(), state.begin(), state.end());
  return all;
}

bool copies_weights(const Program& program) {
  if (program.packs) return true;
  return std::any_of(program.param_tensors.begin(), program.param_tensors.end(),
                     [](const ParamTensors& tensors) { return tensors.fp8.copy.has_value(); });
}

}  // namespace

const Bucket* find_bucket(const Program& program, std::string_view name) {
  const auto found = std::find_if(program.buckets.begin(), program.buckets.end(),
                                  [&](const Bucket& bucket) { return bucket.name == name; });
  return found == program.buckets.end() ? nullptr : &*found;
}

void start_reduction(Tape& tape, const Program& program, const BucketReduction& reduction) {
  if (!has_data_peers(program)) return;
  const int call = reduction_call(program, *reduction.bucket);
  if (reduction.sent.has_value()) {
    tape.enter("backward.compress", reduction.bucket->layer);
    tape.push(op::CompressGradient<TensorId>{.message = reduction.sent,
                                             .residual = reduction.bucket->residual,
                                             .gradient = reduction.whole,
                                             .ranks = num_ranks(program),
                                             .format = program.options.compression});
    tape.enter("backward.reduce", reduction.bucket->layer);
    tape.push(op::AllToAll<TensorId>{
        .data = reduction.received, .sent = reduction.sent, .ranks = num_ranks(program), .call = call});
    return;
  }
  tape.enter("backward.reduce", reduction.bucket->layer);
  tape.push(op::ReduceScatter<TensorId>{
      .shard = reduction.piece, .data = reduction.whole, .ranks = num_ranks(program), .call = call});
}

void await_reduction(Tape& tape, const Program& program, const BucketReduction& reduction) {
  if (!has_data_peers(program)) return;
  const int call = reduction_call(program, *reduction.bucket);
  tape.enter("backward.reduce", reduction.bucket->layer);
  if (!reduction.sent.has_value()) {
    tape.push(op::CommWait<TensorId>{.tensor = reduction.piece, .source = reduction.whole, .call = call});
    return;
  }
  tape.push(op::CommWait<TensorId>{.tensor = reduction.received, .source = reduction.sent, .call = call});
  tape.enter("backward.compress", reduction.bucket->layer);
  tape.push(op::SumMessages<TensorId>{.sum = reduction.piece,
                                      .messages = reduction.received,
                                      .ranks = num_ranks(program),
                                      .format = program.options.compression});
}

std::vector<const Bucket*> forward_order(const Program& program) {
  // Backward finishes the head, the layers from the last, the embedding; then comes what is small, which forward needs
  // at once.
  std::vector<const Bucket*> order;
  for (const Bucket& bucket : program.buckets) order.push_back(&bucket);
  std::reverse(order.begin(), order.end());
  return order;
}

bool is_gathered_early(const Program& program, const Bucket& bucket) {
  if (copies_weights(program)) return true;
  return bucket.layer == program.layers.front().first || (bucket.layer < 0 && bucket.name != "head");
}

void start_gather(Tape& tape, const Program& program, const Bucket& bucket) {
  if (!has_data_peers(program)) return;
  for (size_t i = 0; i < bucket.gathered.size(); ++i) {
    tape.push(op::AllGather<TensorId>{.data = bucket.gathered[i].whole,
                                      .shard = bucket.gathered[i].piece,
                                      .ranks = num_ranks(program),
                                      .call = gather_call(program, bucket, i)});
  }
}

void await_gather(Tape& tape, const Program& program, const Bucket& bucket) {
  if (!has_data_peers(program)) return;
  for (size_t i = 0; i < bucket.gathered.size(); ++i) {
    tape.push(op::CommWait<TensorId>{
        .tensor = bucket.gathered[i].whole, .source = {}, .call = gather_call(program, bucket, i)});
  }
}

void start_late_gathers(Tape& tape, const Program& program) {
  for (const Bucket* bucket : forward_order(program)) {
    if (is_gathered_early(program, *bucket)) continue;
    tape.enter("forward.gather", bucket->layer);
    start_gather(tape, program, *bucket);
  }
}

void await_late_gather(Tape& tape, const Program& program, int64_t layer) {
  // Outside the blocks all but the head is gathered early.
  for (const Bucket* bucket : forward_order(program)) {
    if (bucket->layer != layer || is_gathered_early(program, *bucket)) continue;
    tape.enter("forward.gather", layer);
    await_gather(tape, program, *bucket);
  }
}

void sum_state(Tape& tape, const Program& program) {
  const ProgramOptions& options = program.options;
  if (!options.meets_ranks()) return;
  const TensorId mine = program.step_sums_of_rank;
  tape.push(op::PutStepSums<TensorId>{.sums = mine, .state = program.state});
  tape.push(op::AllGather<TensorId>{.data = program.step_sums,
                                    .shard = mine,
                                    .ranks = static_cast<int>(options.world_ranks()),
                                    .group = op::CommGroup::kWorld,
                                    .call = sums_call(program)});
  tape.push(op::CommWait<TensorId>{.tensor = program.step_sums, .source = {}, .call = sums_call(program)});
  tape.push(op::TakeStepSums<TensorId>{
      .state = program.state, .sums = program.step_sums, .replica_ranks = static_cast<int>(options.tensor_ranks)});
}

void start_tensor_gather(Tape& tape, const Program& program, const TensorCall& call) {
  tape.push(op::AllGather<TensorId>{.data = call.filled,
                                    .shard = call.read,
                                    .ranks = static_cast<int>(program.options.tensor_ranks),
                                    .group = op::CommGroup::kTensor,
                                    .call = tensor_call(program, call.number)});
}

void start_tensor_reduction(Tape& tape, const Program& program, const TensorCall& call) {
  tape.push(op::ReduceScatter<TensorId>{.shard = call.filled,
                                        .data = call.read,
                                        .ranks = static_cast<int>(program.options.tensor_ranks),
                                        .group = op::CommGroup::kTensor,
                                        .call = tensor_call(program, call.number)});
}

void await_tensor_call(Tape& tape, const Program& program, const TensorCall& call) {
  tape.push(
      op::CommWait<TensorId>{.tensor = call.filled, .source = call.read, .call = tensor_call(program, call.number)});
}

void sum_over_tensor_ranks(Tape& tape, const Program& program, TensorId data) {
  tape.push(op::AllReduce<TensorId>{.data = data, .group = op::CommGroup::kTensor, .call = tensor_call(program, 0)});
  tape.push(op::CommWait<TensorId>{.tensor = data, .source = {}, .call = tensor_call(program, 0)});
}

void start_pass_on(Tape& tape, const Program& program, const ContextCall& call) {
  tape.push(
      op::PassOn<TensorId>{.received = call.filled, .sent = call.read, .call = context_call(program, call.number)});
}

void await_pass_on(Tape& tape, const Program& program, const ContextCall& call) {
  tape.push(
      op::CommWait<TensorId>{.tensor = call.filled, .source = call.read, .call = context_call(program, call.number)});
}

void start_send(Tape& tape, const Program& program, const StageCall& call) {
  tape.push(
      op::Send<TensorId>{.sent = call.tensor, .neighbour = call.neighbour, .call = stage_call(program, call.number)});
}

void start_receive(Tape& tape, const Program& program, const StageCall& call) {
  tape.push(op::Receive<TensorId>{
      .received = call.tensor, .neighbour = call.neighbour, .call = stage_call(program, call.number)});
}

void await_stage_call(Tape& tape, const Program& program, const StageCall& call) {
  tape.push(op::CommWait<TensorId>{.tensor = call.tensor, .source = {}, .call = stage_call(program, call.number)});
}

void sum_tied_embedding(Tape& tape, const Program& program) {
  const StagePlace place = program.options.stage_place();
  const bool is_end = place.is_first() || place.is_last();
  if (place.stages == 1 || !is_end || !program.config.tie_word_embeddings) return;
  const TensorId gradient = find_bucket(program, "embedding")->shard.gradient;
  tape.enter("backward.stages");
  tape.push(op::AllReduce<TensorId>{.data = gradient, .group = op::CommGroup::kEnds, .call = stage_call(program, 0)});
  tape.push(op::CommWait<TensorId>{.tensor = gradient, .source = {}, .call = stage_call(program, 0)});
}

void declare_step_sums(Program& program) {
  if (!program.options.meets_ranks()) return;
  program.step_sums = program.tensors.add({.name = "step_sums",
                                           .dtype = DType::kF64,
                                           .shape = {program.options.world_ranks(), op::kNumStepSums},
                                           .owner = Owner::kCommunication,
                                           .storage = Storage::kPersistent});
  program.step_sums_of_rank = program.tensors.rows(program.step_sums, program.options.world_rank(), 1);
}

Tape make_synchronise_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kSynchronise))};
  const int64_t size = program.tensors[program.copies].shape.num_elements();
  const int64_t ranks = program.options.data_ranks;
  const auto temporary = [&](const char* name, DType dtype, int64_t count, Owner owner) {
    return program.tensors.add(
        {.name = name, .dtype = dtype, .shape = {count}, .owner = owner, .storage = Storage::kArena});
  };
  const TensorId sums = temporary("copies.sums", DType::kF32, size, Owner::kCommunication);
  const TensorId piece =
      program.tensors.view(sums, "copies.sums.piece", {size / ranks}, program.options.data_rank * (size / ranks));
  tape.enter("optimizer.synchronise");
  tape.push(op::Convert<TensorId>{.out = sums, .x = program.copies});
  tape.push(op::ReduceScatter<TensorId>{.shard = piece, .data = sums, .ranks = num_ranks(program), .call = 0});
  tape.push(op::CommWait<TensorId>{.tensor = piece, .source = sums, .call = 0});
  tape.push(op::AllGather<TensorId>{.data = sums, .shard = piece, .ranks = num_ranks(program), .call = 1});
  tape.push(op::CommWait<TensorId>{.tensor = sums, .source = {}, .call = 1});
  // Masters are the first third; how far the moments are apart says nothing of the model.
  const int64_t masters = size / 3;
  const auto push_mean = [&](const std::string& name, int64_t first, int64_t count, bool measures) {
    const auto part = [&](TensorId of) {
      return program.tensors.view(of, program.tensors[of].name + "." + name, {count}, first);
    };
    op::MeanOfCopies<TensorId> mean{.copy = part(program.copies), .sum = part(sums), .ranks = ranks};
    if (measures) {
      mean.state = program.state;
      mean.partials =
          temporary("copies.partials", DType::kF64, 2 * ceil_div(count, op::kSquareSumBlock), Owner::kScratch);
    }
    tape.push(mean);
  };
  push_mean("masters", 0, masters, true);
  push_mean("moments", masters, size - masters, false);
  return tape;
}

Tape make_replica_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kReplicas))};
  tape.enter("check.replicas");
  ReplicaTensors& replicas = program.replicas;
  replicas.tensors = replicated_tensors(program);
  const int64_t count = std::ssize(replicas.tensors);
  replicas.checksums = program.tensors.add({.name = "replica_checksums",
                                            .dtype = DType::kI64,
                                            .shape = {program.options.data_ranks, count},
                                            .owner = Owner::kCommunication,
                                            .storage = Storage::kPersistent});
  replicas.checksums_of_rank = program.tensors.rows(replicas.checksums, program.options.data_rank, 1);
  for (int64_t i = 0; i < count; ++i) {
    const TensorId tensor = replicas.tensors[static_cast<size_t>(i)];
    const TensorId out =
        program.tensors.view(replicas.checksums_of_rank, program.tensors[tensor].name + ".checksum", {1}, i);
    tape.push(op::Checksum<TensorId>{.out = out, .x = tensor});
  }
  tape.push(op::AllGather<TensorId>{
      .data = replicas.checksums, .shard = replicas.checksums_of_rank, .ranks = num_ranks(program), .call = 0});
  tape.push(op::CommWait<TensorId>{.tensor = replicas.checksums, .source = {}, .call = 0});
  return tape;
}

Tape make_gather_tape(const Program& program) {
  Tape tape{std::string(phase_name(Phase::kGather))};
  start_late_gathers(tape, program);
  for (const StageLayers& range : program.layers) {
    for (int64_t layer = range.first; layer < range.end(); ++layer) await_late_gather(tape, program, layer);
  }
  await_late_gather(tape, program, -1);
  return tape;
}

Tape make_sum_state_tape(const Program& program) {
  Tape tape{std::string(phase_name(Phase::kSumState))};
  tape.enter("eval.sum");
  sum_state(tape, program);
  return tape;
}

}  // namespace litespark
