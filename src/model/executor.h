// SPDX-License-Identifier: Apache-2.0
// A Program bound to a backend's memory: two allocations (and pinned host memory where it offloads), every op validated
// and prepared before the first step, then nothing but running tapes.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/step_state.h"
#include "dist/communicator.h"
#include "ops/backend.h"
#include "spec/program.h"

namespace litespark {

/// Told of every op as it runs; the meter's timeline listens here.
class OpObserver {
 public:
  virtual ~OpObserver() = default;
  virtual void before(const TapeEntry& entry) = 0;
  virtual void after(const TapeEntry& entry) = 0;
  /// The host turns to something that is no op: "data.wait"; "": to nothing that has a name. Default: nothing.
  virtual void enter(std::string_view /*scope*/) {}
};

class Executor {
 public:
  /// Allocates exactly Program::memory's total, binds and validates every op. Throws ConfigError when the memory is not
  /// there, InternalError when a tape breaks an op's contract. `communicator`: of all ranks of the program, where there
  /// are several; outlives this. Their groups come together in front of the first phase, which all run at one point.
  Executor(Program program, Backend& backend, Communicator* communicator = nullptr);

  const Program& program() const { return program_; }
  Backend& backend() const { return backend_; }
  /// Of all ranks; nullptr where there is one.
  Communicator* communicator() const { return communicator_; }
  /// Of this rank's group; nullptr where it is alone in it. Throws InternalError before the first phase.
  Communicator* communicator(op::CommGroup group) const;
  /// Bytes really allocated on the device: the plan's total.
  int64_t allocated_bytes() const;

  /// Runs a phase. On devices with graphs its ops are recorded after their first run and started together from then on,
  /// unless somebody observes them. Throws InternalError when the program has no such phase.
  void run(Phase phase);
  void set_observer(OpObserver* observer) { observer_ = observer; }
  /// Whether phases in which ranks meet are recorded like others, for communicators whose calls can be. Default: not.
  void set_records_communication(bool is_on) { records_communication_ = is_on; }
  bool records_communication() const { return records_communication_; }
  /// Marks the moments in front of and behind every wait for other ranks, in phases that are not recorded; nullptr:
  /// none.
  void set_wait_timer(DeviceTimer* timer) { wait_timer_ = timer; }
  bool is_observed() const { return observer_ != nullptr; }
  /// Tells the observer, if there is one, what the host does from here to the next op.
  void enter(std::string_view scope) const {
    if (observer_ != nullptr) observer_->enter(scope);
  }

  /// The memory of a tensor. Arena tensors are valid only while their phase runs.
  Tensor tensor(TensorId id) const;
  /// Copies a whole tensor; `bytes` must be its size.
  void write(TensorId id, const void* source, int64_t bytes);
  void read(TensorId id, void* destination, int64_t bytes) const;

  /// The host's side of a tensor, or of a stretch of it.
  struct HostTensor {
    TensorId id;
    const void* data = nullptr;
    int64_t first_byte = 0;
    std::optional<int64_t> bytes = {};  ///< nullopt: up to the tensor's end
  };
  /// Fills tensors of one of Program::batch_of in one go; waits neither for ops nor for the copy. The host's memory may
  /// be reused at once.
  void upload_batch(std::span<const HostTensor> tensors, int64_t micro_batch = 0);

  StepState read_state() const;
  void write_state(const StepState& state);
  /// Writes the inputs and accumulators of `state` and leaves what the device keeps. Does not wait.
  void begin_step(const StepState& state);
  /// Behind a step's micro-batches, in front of its optimizer. Does not wait.
  void write_rank_counts(const RankCounts& counts);
  /// Every op alone, with a wait behind it, so that an error names the very op; for finding one, since it is slow.
  void set_debug_sync(bool is_on) { debug_sync_ = is_on; }
  /// Runs `call`, which waits for the device; a DeviceError out of it also says what was issued last.
  template <class Call>
  decltype(auto) waiting(const Call& call) const {
    try {
      return call();
    } catch (const DeviceError& error) {
      rethrow_late(error);
    }
  }

 private:
  struct BoundPhase {
    Phase phase;
    std::vector<op::AnyOp<Tensor>> ops;
    std::unique_ptr<CapturedGraph> graph;
    bool was_run = false;  ///< kernels are loaded and libraries warm: it may be recorded
    bool can_be_captured = true;
    bool meets_ranks = false;  ///< has calls of the communicator
  };

  /// What an error that is noticed late is held against.
  struct Issued {
    const BoundPhase* phase = nullptr;
    size_t op = 0;
    bool is_whole_phase = false;  ///< started as one graph
  };

  BoundPhase& bound(Phase phase);
  void run_ops(const BoundPhase& bound_phase);
  void run_observed(const BoundPhase& bound_phase);
  void run_op(const BoundPhase& bound_phase, size_t index);
  void bind_phase(Phase phase, const Tape& tape);
  void form_groups();
  void communicate(const op::AllReduce<Tensor>& op);
  void communicate(const op::ReduceScatter<Tensor>& op);
  void communicate(const op::AllGather<Tensor>& op);
  void communicate(const op::AllToAll<Tensor>& op);
  void communicate(const op::Send<Tensor>& op);
  void communicate(const op::Receive<Tensor>& op);
  void communicate(const op::PassOn<Tensor>& op);
  void communicate(const op::CommWait<Tensor>& op);
  std::string last_issued_text() const;
  [[noreturn]] void rethrow_late(const DeviceError& error) const;
  void check_size(TensorId id, int64_t bytes) const;
  const DeviceMemory& block_of(Storage storage) const;

  Program program_;
  Backend& backend_;
  struct Call {
    Communicator* among = nullptr;
    CommTicket ticket;
  };
  Communicator* communicator_;
  /// Those of this rank, by op::CommGroup; absent where they are all ranks, or this one alone.
  std::array<std::unique_ptr<Communicator>, op::kNumCommGroups> groups_;
  bool has_groups_ = false;
  std::vector<Call> calls_;  ///< under way, by the number that the tape gives them
  std::unique_ptr<DeviceMemory> persistent_;
  std::unique_ptr<DeviceMemory> arena_;
  std::unique_ptr<DeviceMemory> host_;                        ///< pinned; absent when the plan has no host tensors
  std::vector<std::unique_ptr<StagedUpload>> batch_uploads_;  ///< one for each of Program::batch_of
  std::vector<BoundPhase> phases_;
  OpObserver* observer_ = nullptr;
  DeviceTimer* wait_timer_ = nullptr;
  bool debug_sync_ = false;
  bool records_communication_ = false;
  Issued last_issued_;
};

}  // namespace litespark
