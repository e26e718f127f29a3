// SPDX-License-Identifier: Apache-2.0
#include "model/executor.h"

#include <algorithm>

namespace litespark {
namespace {

/// Ops are issued far ahead of the device, so the one that an error is reported at need not be the one that failed.
constexpr const char* kMayBeEarlier = "; an op before it may have failed: device.debug_sync = true names the very one";

void require_ranks(const ProgramOptions& options, const Communicator* communicator) {
  const int64_t ranks = communicator == nullptr ? 1 : communicator->size();
  const int64_t rank = communicator == nullptr ? 0 : communicator->rank();
  if (options.world_ranks() == ranks && options.world_rank() == rank &&
      options.meets_ranks() == (communicator != nullptr)) {
    return;
  }
  const auto text = [](int64_t which, int64_t of) {
    return "rank " + std::to_string(which) + " of " + std::to_string(of);
  };
  throw InternalError("executor", "the communicator is not the program's", text(rank, ranks),
                      text(options.world_rank(), options.world_ranks()));
}

/// A rank's group of one kind: how many ranks such groups have, and a number that tells this one from the others.
struct GroupPlace {
  int64_t size = 1;
  int color = 0;
};

GroupPlace place_in(op::CommGroup group, const Program& program) {
  const ProgramOptions& options = program.options;
  const int64_t replica_part = options.data_rank * options.tensor_ranks + options.tensor_rank;
  const auto place = [](int64_t size, int64_t color) { return GroupPlace{size, static_cast<int>(color)}; };
  switch (group) {
    case op::CommGroup::kData:
      return place(options.data_ranks, options.stage * options.tensor_ranks + options.tensor_rank);
    case op::CommGroup::kTensor:
      return place(options.tensor_ranks, options.stage * options.data_ranks + options.data_rank);
    case op::CommGroup::kContext: {
      const int64_t replica = options.stage * options.replicas() + options.replica();
      return place(options.context_ranks, replica * options.tensor_ranks + options.tensor_rank);
    }
    case op::CommGroup::kStages: return place(options.stages, replica_part);
    case op::CommGroup::kEnds: {
      if (options.stages == 1 || !program.config.tie_word_embeddings) return place(1, 0);
      const bool is_end = options.stage_place().is_first() || options.stage_place().is_last();
      // Stages between them make the call that splits and never use what it gives.
      return place(2, is_end ? replica_part : options.data_ranks * options.tensor_ranks);
    }
    case op::CommGroup::kWorld: return place(options.world_ranks(), 0);
  }
  throw InternalError("executor", "unknown group of ranks", static_cast<int>(group), "a CommGroup");
}

/// The rank that is so many places further; the first comes behind the last.
int in_ring(const Communicator& among, int places) {
  return (among.rank() + places + among.size()) % among.size();
}

}  // namespace

Executor::Executor(Program program, Backend& backend, Communicator* communicator)
    : program_(std::move(program)), backend_(backend), communicator_(communicator) {
  require_ranks(program_.options, communicator_);
  persistent_ = backend_.allocate(program_.memory->persistent_bytes());
  arena_ = backend_.allocate(program_.memory->arena_bytes());
  if (program_.memory->host_bytes() > 0) host_ = backend_.allocate_pinned(program_.memory->host_bytes());
  for (int64_t micro = 0; micro <= std::ssize(program_.later_batches); ++micro) {
    const BatchTensors& batch = program_.batch_of(micro);
    batch_uploads_.push_back(
        backend_.make_staged_upload(tensor(batch.block), batch.staging.has_value() ? tensor(batch.staging) : Tensor{}));
  }
  if (program_.rope_table.has_value()) {
    const std::vector<std::byte> rope = stored_rope_table(program_.config.rope, program_.config.head_dim,
                                                          program_.tensors[program_.rope_table].shape[0]);
    write(program_.rope_table, rope.data(), std::ssize(rope));
  }
  for (const auto& [phase, tape] : program_.tapes) bind_phase(phase, tape);
}

void Executor::form_groups() {
  has_groups_ = true;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const GroupPlace place = place_in(static_cast<op::CommGroup>(group), program_);
    const bool is_world = place.size == program_.options.world_ranks();
    if (place.size > 1 && !is_world) groups_[group] = communicator_->split(place.color);
  }
}

Communicator* Executor::communicator(op::CommGroup group) const {
  if (!has_groups_) throw InternalError("executor", "the ranks' groups come with the first phase");
  if (program_.options.meets_itself) {
    return group == op::CommGroup::kData || group == op::CommGroup::kWorld ? communicator_ : nullptr;
  }
  if (place_in(group, program_).size == 1) return nullptr;
  const std::unique_ptr<Communicator>& own = groups_[static_cast<size_t>(group)];
  return own ? own.get() : communicator_;
}

void Executor::bind_phase(Phase phase, const Tape& tape) {
  BoundPhase bound_phase{.phase = phase};
  const auto prepare = [&]<class Op>(const Op& op) {
    if constexpr (op::Communication<Op>) {
      bound_phase.meets_ranks = true;
      calls_.resize(std::max(calls_.size(), static_cast<size_t>(op.call) + 1));
    } else {
      backend_.prepare(op);
    }
  };
  for (const TapeEntry& entry : tape.entries()) {
    bound_phase.ops.push_back(bind_op(entry.op, [&](TensorId id) { return tensor(id); }));
    validate(bound_phase.ops.back());
    std::visit(prepare, bound_phase.ops.back());
  }
  phases_.push_back(std::move(bound_phase));
}

int64_t Executor::allocated_bytes() const {
  return persistent_->bytes() + arena_->bytes();
}

Executor::BoundPhase& Executor::bound(Phase phase) {
  const auto found = std::find_if(phases_.begin(), phases_.end(),
                                  [&](const BoundPhase& candidate) { return candidate.phase == phase; });
  if (found == phases_.end()) {
    throw InternalError("executor", "phase is not part of this program", phase_name(phase), "one of its tapes");
  }
  return *found;
}

void Executor::run_op(const BoundPhase& bound_phase, size_t index) {
  last_issued_ = {.phase = &bound_phase, .op = index};
  try {
    std::visit(
        [&]<class Op>(const Op& op) {
          if constexpr (op::Communication<Op>) {
            communicate(op);
          } else {
            backend_.run(op);
          }
        },
        bound_phase.ops[index]);
    if (debug_sync_) backend_.synchronize();
  } catch (const DeviceError& error) {
    throw DeviceError(last_issued_text(), error.what() + std::string(debug_sync_ ? "" : kMayBeEarlier));
  }
}

void Executor::communicate(const op::AllReduce<Tensor>& op) {
  Communicator* const among = communicator(op.group);
  calls_[static_cast<size_t>(op.call)] = {among, among->all_reduce(op.data, Reduction::kSum)};
}

void Executor::communicate(const op::ReduceScatter<Tensor>& op) {
  Communicator* const among = communicator(op.group);
  calls_[static_cast<size_t>(op.call)] = {among, among->reduce_scatter(op.shard, op.data, Reduction::kSum)};
}

void Executor::communicate(const op::AllGather<Tensor>& op) {
  Communicator* const among = communicator(op.group);
  calls_[static_cast<size_t>(op.call)] = {among, among->all_gather(op.data, op.shard)};
}

void Executor::communicate(const op::AllToAll<Tensor>& op) {
  Communicator* const among = communicator(op.group);
  calls_[static_cast<size_t>(op.call)] = {among, among->all_to_all(op.data, op.sent)};
}

void Executor::communicate(const op::Send<Tensor>& op) {
  Communicator* const among = communicator(op::CommGroup::kStages);
  calls_[static_cast<size_t>(op.call)] = {among, among->exchange({}, 0, op.sent, in_ring(*among, op.neighbour))};
}

void Executor::communicate(const op::Receive<Tensor>& op) {
  Communicator* const among = communicator(op::CommGroup::kStages);
  calls_[static_cast<size_t>(op.call)] = {among, among->exchange(op.received, in_ring(*among, op.neighbour), {}, 0)};
}

void Executor::communicate(const op::PassOn<Tensor>& op) {
  Communicator* const among = communicator(op::CommGroup::kContext);
  calls_[static_cast<size_t>(op.call)] = {
      among, among->exchange(op.received, in_ring(*among, -1), op.sent, in_ring(*among, 1))};
}

void Executor::communicate(const op::CommWait<Tensor>& op) {
  const Call& call = calls_[static_cast<size_t>(op.call)];
  const bool is_timed = wait_timer_ != nullptr && !records_communication_;
  if (is_timed) wait_timer_->mark();
  call.among->wait(call.ticket);
  if (is_timed) wait_timer_->mark();
}

void Executor::run_ops(const BoundPhase& bound_phase) {
  for (size_t index = 0; index < bound_phase.ops.size(); ++index) run_op(bound_phase, index);
}

std::string Executor::last_issued_text() const {
  if (last_issued_.phase == nullptr) return "before the first op";
  std::string phase(phase_name(last_issued_.phase->phase));
  if (last_issued_.is_whole_phase) return phase;
  const TapeEntry& entry = program_.tape(last_issued_.phase->phase)->entries()[last_issued_.op];
  std::string text = phase + ": " + std::string(op_name(entry.op)) + " of " + std::string(entry.scope);
  if (entry.layer >= 0) text += ", layer " + std::to_string(entry.layer);
  return text;
}

void Executor::rethrow_late(const DeviceError& error) const {
  throw DeviceError(last_issued_text(), error.what() + std::string("; this was issued last") + kMayBeEarlier);
}

void Executor::run(Phase phase) {
  if (!has_groups_) form_groups();
  BoundPhase& bound_phase = bound(phase);
  if (observer_ != nullptr) {
    run_observed(bound_phase);
    return;
  }
  if (debug_sync_) {
    run_ops(bound_phase);
    return;
  }
  const bool is_recorded = bound_phase.can_be_captured && (!bound_phase.meets_ranks || records_communication_);
  if (bound_phase.was_run && is_recorded && !bound_phase.graph && !bound_phase.ops.empty()) {
    bound_phase.graph = backend_.capture([&] { run_ops(bound_phase); });
    bound_phase.can_be_captured = bound_phase.graph != nullptr;
  }
  if (bound_phase.graph) {
    last_issued_ = {.phase = &bound_phase, .is_whole_phase = true};
    waiting([&] { bound_phase.graph->launch(); });
  } else {
    run_ops(bound_phase);
  }
  bound_phase.was_run = true;
}

void Executor::run_observed(const BoundPhase& bound_phase) {
  const std::vector<TapeEntry>& entries = program_.tape(bound_phase.phase)->entries();
  for (size_t index = 0; index < bound_phase.ops.size(); ++index) {
    observer_->before(entries[index]);
    run_op(bound_phase, index);
    observer_->after(entries[index]);
  }
  observer_->enter("");
}

Tensor Executor::tensor(TensorId id) const {
  const TensorInfo& info = program_.tensors[id];
  const auto [root, offset_in_root] = program_.tensors.root(id);
  const int64_t root_offset = program_.memory->offset(root);
  if (root_offset < 0) throw InternalError(info.name, "tensor has no memory: no tape uses it");
  return {
      .data = static_cast<std::byte*>(block_of(program_.tensors[root].storage).data()) + root_offset + offset_in_root,
      .dtype = info.dtype,
      .shape = info.shape,
      .device = backend_.device()};
}

const DeviceMemory& Executor::block_of(Storage storage) const {
  switch (storage) {
    case Storage::kPersistent: return *persistent_;
    case Storage::kArena:
    case Storage::kCarried: return *arena_;
    case Storage::kHost: return *host_;
  }
  throw InternalError("executor", "unknown storage", static_cast<int>(storage), "a Storage");
}

void Executor::check_size(TensorId id, int64_t bytes) const {
  const TensorInfo& info = program_.tensors[id];
  if (bytes != info.bytes()) throw InternalError(info.name, "copy of the wrong size", bytes, info.bytes());
}

void Executor::write(TensorId id, const void* source, int64_t bytes) {
  check_size(id, bytes);
  backend_.copy_to_device(tensor(id).data, source, bytes);
}

void Executor::read(TensorId id, void* destination, int64_t bytes) const {
  check_size(id, bytes);
  waiting([&] { backend_.copy_to_host(destination, tensor(id).data, bytes); });
}

void Executor::upload_batch(std::span<const HostTensor> tensors, int64_t micro_batch) {
  std::array<StagedUpload::Part, 8> parts;
  if (tensors.size() > parts.size()) {
    throw InternalError("upload_batch", "too many tensors", tensors.size(), parts.size());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto [root, offset_bytes] = program_.tensors.root(tensors[i].id);
    if (root != program_.batch_of(micro_batch).block)
      throw InternalError(program_.tensors[tensors[i].id].name, "no part of the batch");
    const int64_t whole = program_.tensors[tensors[i].id].bytes();
    const int64_t first = tensors[i].first_byte;
    const int64_t bytes = tensors[i].bytes.value_or(whole - first);
    if (first < 0 || bytes < 0 || first + bytes > whole) {
      throw InternalError(program_.tensors[tensors[i].id].name, "is shorter than what would fill it", first + bytes,
                          whole);
    }
    parts[i] = {.offset_bytes = offset_bytes + first, .source = tensors[i].data, .bytes = bytes};
  }
  batch_uploads_.at(static_cast<size_t>(micro_batch))->fill(std::span(parts).first(tensors.size()));
}

StepState Executor::read_state() const {
  StepState state;
  read(program_.state, &state, sizeof(state));
  return state;
}

void Executor::write_state(const StepState& state) {
  write(program_.state, &state, sizeof(state));
}

void Executor::write_rank_counts(const RankCounts& counts) {
  std::byte* const state = static_cast<std::byte*>(tensor(program_.state).data);
  backend_.copy_to_device(state + offsetof(StepState, counts), &counts, sizeof(counts));
}

void Executor::begin_step(const StepState& state) {
  backend_.copy_to_device(tensor(program_.state).data, &state, kStepInputBytes);
}

}  // namespace litespark
