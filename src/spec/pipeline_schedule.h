// SPDX-License-Identifier: Apache-2.0
// In which order a pipeline stage works on a step's micro-batches, and what it tells its neighbours in between: one
// forward, one backward (1F1B). Plain numbers, so that it can be looked at without a model.
#pragma once

#include <cstdint>
#include <vector>

namespace litespark {

/// One of the stages of a replica, counted from the embedding's.
struct StagePlace {
  int64_t stages = 1;
  int64_t stage = 0;

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
};

/// Forward or backward of one micro-batch, or a call with one neighbour. Of the previous stage come activations and it
/// gets gradients; of the next come gradients and it gets activations.
struct StageAction {
  enum class Kind : uint8_t { kForward, kBackward, kMeetPrevious, kMeetNext };

  Kind kind = Kind::kForward;
  int64_t micro_batch = -1;  ///< of a forward or backward
  int64_t sent = -1;         ///< of a call: the micro-batch whose tensor goes; -1: none
  int64_t received = -1;     ///< the one whose tensor comes; -1: none

  bool operator==(const StageAction&) const = default;
};

/// Micro-batches that a stage has in flight at most, between their forward and their backward: min(m, P - s).
int64_t most_in_flight(const StagePlace& place, int64_t micro_batches);

/// All that one stage does in a step of `micro_batches`, in order: min(m, P - s - 1) forwards, then a forward and a
/// backward in turn, then the backwards that are left; the micro-batches of each in their own order. Where two
/// neighbours have something for each other at the same time both go in one call, so that calls which wait for the
/// other side, made in this order, never wait for each other in a circle. Source: Narayanan et al. 2021
/// (PipeDream-Flush in Megatron-LM).
std::vector<StageAction> one_forward_one_backward(const StagePlace& place, int64_t micro_batches);

}  // namespace litespark
