// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other: one interface over threads of one process, Gloo, MPI and NCCL. When, what and how much is
// sent stands on the tape (spec/); here is only how.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/tensor.h"

namespace litespark {

/// Sum, or the larger of two. A NaN anywhere makes the result NaN in both.
enum class Reduction : uint8_t { kSum, kMax };

/// A call under way. Valid until it was waited for.
struct CommTicket {
  int64_t id = -1;
};

/// A group of ranks that make the same calls in the same order, with the same shapes and dtypes. `exchange` alone is a
/// matter between neighbours.
///
/// Calls do not block: a call begins when the ops issued before it on this rank are done, calls of one communicator
/// that touch the same memory run in the order of their issue, others may run beside each other, and all run beside the
/// ops issued after them. A call that is waited for is done, and so are those issued before it. Until `wait`, sources
/// may only be read and destinations must not be touched. Tensors live where the communicator's ranks compute: host
/// memory for local, Gloo and MPI, device memory for NCCL. f32, bf16 and f64 are reduced, anything is moved; sums of
/// bf16 are made in f32 and rounded once (at each level of a hierarchical one). Sums add in rank order wherever the
/// implementation says `is_ordered`, so that bits do not depend on timing; on the same layout every implementation
/// repeats its own bits.
///
/// Every call has a deadline from its beginning. A peer that is lost, late, or that made another call ends in CommError
/// (exit 7), which names the rank where it can be known, the call, and the step; the communicator is unusable then and
/// every later call throws at once. It is thrown by whichever call or wait notices it. Tensors that no call could ever
/// take (dtype, pieces, place) are refused with InternalError before anything is sent.
///
/// One thread a rank makes the calls. Whoever destroys a communicator has waited for its calls, or gives them up.
///
/// The same holds of calls of groups made by `split`, whichever of its groups they belong to, so that a call may read
/// what an earlier one of another group leaves: what two ranks share they must issue in the same order. `abort` of what
/// was split ends its groups too.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::string name() const = 0;  ///< "local", "gloo", "mpi", "nccl"
  virtual int rank() const = 0;          ///< 0 .. size() - 1
  virtual int size() const = 0;
  virtual bool is_ordered() const = 0;

  /// For error messages of the calls that follow.
  virtual void set_step(int64_t step) = 0;

  /// data = reduction over ranks of data, on every rank.
  virtual CommTicket all_reduce(const Tensor& data, Reduction reduction) = 0;
  /// shard = the rank-th of size() equal pieces of the reduction of `data`. `shard` may be that very piece of `data`;
  /// the other pieces of `data` are undefined afterwards.
  virtual CommTicket reduce_scatter(const Tensor& shard, const Tensor& data, Reduction reduction) = 0;
  /// data = the shards of all ranks in rank order. `shard` may be the rank-th piece of `data`.
  virtual CommTicket all_gather(const Tensor& data, const Tensor& shard) = 0;
  /// data = root's data, on every rank.
  virtual CommTicket broadcast(const Tensor& data, int root) = 0;
  /// Piece p of `sent` goes to rank p, and becomes piece rank() of its `received`. Equal pieces, no overlap.
  virtual CommTicket all_to_all(const Tensor& received, const Tensor& sent) = 0;
  /// `sent` goes to rank `destination`, `received` comes from rank `source`; an absent tensor: that half does not
  /// happen. Both halves progress together, so that rings cannot deadlock. Ranks that are not named do not take part:
  /// what one rank sends to another meets that one's receives in order. A call of both halves with one and the same
  /// rank meets a call of both halves there.
  virtual CommTicket exchange(const Tensor& received, int source, const Tensor& sent, int destination) = 0;

  /// Ops issued from here on, and reads of the host behind them, see the call's result. On the CPU this blocks.
  virtual void wait(CommTicket ticket) = 0;
  /// Throws the CommError of calls that the host has not waited for, if they failed: the ops behind them have read
  /// anything. Asked before results are believed. Default: nothing, where wait blocks.
  virtual void check_alive() {}
  /// A communicator among the ranks that gave the same `color` (0 or more), in the order of their ranks here. All ranks
  /// call it at the same point; blocks the host. This one must outlive it.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
  /// All ranks have come here, and all that was issued before is done. Blocks the host.
  virtual void barrier() = 0;
  /// Makes every call under way and to come fail, on this rank at once and on the others as soon as they notice. Any
  /// thread may call it.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace litespark
