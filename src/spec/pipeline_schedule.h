// SPDX-License-Identifier: Apache-2.0
// In which order a pipeline stage works on a step's micro-batches, and when it tells its neighbours what: one forward,
// one backward (1F1B), interleaved where a stage holds several ranges of layers. Plain numbers, so that it can be
// looked at without a model.
#pragma once

#include <cstdint>
#include <vector>

namespace litespark {

/// One of the stages of a replica, counted from the embedding's. A micro-batch visits all of them `chunks` times.
struct StagePlace {
  int64_t stages = 1;  ///< P
  int64_t stage = 0;   ///< s
  int64_t chunks = 1;  ///< v: ranges of layers that each stage holds

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
  /// Whether a chunk is the model's first, its last: nothing comes from, goes to another one.
  bool begins_model(int64_t chunk) const { return is_first() && chunk == 0; }
  bool ends_model(int64_t chunk) const { return is_last() && chunk + 1 == chunks; }
};

/// Forward or backward of one micro-batch through one chunk, or the beginning of a call. Streams go to the next stage,
/// of which the first comes behind the last, and gradients to the one before.
struct StageAction {
  enum class Kind : uint8_t { kForward, kBackward, kSendStream, kReceiveStream, kSendGradient, kReceiveGradient };

  Kind kind = Kind::kForward;
  int64_t micro_batch = 0;
  int64_t chunk = 0;  ///< of this stage: that which makes what is sent, reads what is received

  bool is_call() const { return kind != Kind::kForward && kind != Kind::kBackward; }
  bool operator==(const StageAction&) const = default;
};

/// The forwards and backwards of one stage, in order, with m micro-batches: min(m v, w) forwards, then a forward and a
/// backward in turn, then the backwards that are left, where w is P - s - 1 with one chunk and 2 (P - s - 1) + (v - 1)
/// P with several. With several, P micro-batches go through one chunk, then the same through the next; m must be a
/// multiple of P. Source: Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters".
std::vector<StageAction> stage_units(const StagePlace& place, int64_t micro_batches);

/// How many chunks' activations a stage keeps at most: min(m, P - s) with one chunk.
int64_t most_in_flight(const StagePlace& place, int64_t micro_batches);

/// All that one stage does in a step: its units, and the calls between them. What another stage makes is asked for in
/// front of the unit in whose time it will be ready if a backward lasts as long as two forwards, so that it travels
/// beside work. Calls stand in the order of those times on all stages: whoever makes its own in order, each waiting for
/// the other side, is never part of a circle. A unit may begin when what it reads is there; what it sends may be waited
/// for behind the next unit. Throws InternalError for micro-batches that several chunks cannot share out.
std::vector<StageAction> stage_schedule(const StagePlace& place, int64_t micro_batches);

}  // namespace litespark
