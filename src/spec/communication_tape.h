// SPDX-License-Identifier: Apache-2.0
// Where on the tapes ranks meet (ZeRO-1): each bucket's gradients are reduced as soon as backward has written the last
// of them, weights are gathered bucket by bucket in front of the forward that reads them, and one small message carries
// what the step is decided from. A call is waited for on the tape that starts it. With one rank all of this writes
// nothing.
#pragma once

#include "spec/program.h"

namespace litespark {

/// A bucket whose gradients are complete, the head's, the embedding's, one of a layer, or that of norms and biases, on
/// its way from every rank's [size] to this rank's piece of the sum.
struct BucketReduction {
  const Bucket* bucket = nullptr;
  TensorId whole, piece;
  TensorId sent, received;  ///< messages in 16 bits; absent where gradients travel as they are
};
void start_reduction(Tape& tape, const Program& program, const BucketReduction& reduction);
void await_reduction(Tape& tape, const Program& program, const BucketReduction& reduction);

/// The bucket whose name this is; nullptr when there is none, as with one rank.
const Bucket* find_bucket(const Program& program, std::string_view name);

/// Whether the optimizer's tape gathers this bucket itself, beside the update of those behind it: what the next forward
/// reads first, and everything where weights are copied (packed, in 8 bits) in front of forward.
bool is_gathered_early(const Program& program, const Bucket& bucket);
void start_gather(Tape& tape, const Program& program, const Bucket& bucket);
void await_gather(Tape& tape, const Program& program, const Bucket& bucket);
/// The other buckets, in the order of forward: started in front of it.
void start_late_gathers(Tape& tape, const Program& program);
/// In front of a layer, or of the head (-1), whose buckets start_late_gathers began.
void await_late_gather(Tape& tape, const Program& program, int64_t layer);
/// Buckets in the order in which forward reads them.
std::vector<const Bucket*> forward_order(const Program& program);

/// A call among the ranks that share a replica: a gather fills [R S] from every rank's [S], a reduction [S] with this
/// rank's piece of the sum of every rank's [R S].
struct TensorCall {
  static constexpr int kMostUnderWay = 8;

  TensorId filled, read;
  int number = 0;  ///< below kMostUnderWay: tells those apart that are under way together
};
void start_tensor_gather(Tape& tape, const Program& program, const TensorCall& call);
void start_tensor_reduction(Tape& tape, const Program& program, const TensorCall& call);
void await_tensor_call(Tape& tape, const Program& program, const TensorCall& call);
/// data = the sum of it, waited for at once.
void sum_over_tensor_ranks(Tape& tape, const Program& program, TensorId data);

/// A tensor on its way round the ring of the ranks that share a micro-batch: `read` to the next rank, what fills
/// `filled` from the one before.
struct ContextCall {
  static constexpr int kMostUnderWay = 4;

  TensorId filled, read;
  int number = 0;  ///< below kMostUnderWay
};
void start_pass_on(Tape& tape, const Program& program, const ContextCall& call);
void await_pass_on(Tape& tape, const Program& program, const ContextCall& call);

/// A tensor on its way to or from a neighbouring stage: 1 the next, -1 the one before.
struct StageCall {
  TensorId tensor;
  int neighbour = 1;
  int number = 0;  ///< tells those apart that are under way together
};
void start_send(Tape& tape, const Program& program, const StageCall& call);
void start_receive(Tape& tape, const Program& program, const StageCall& call);
void await_stage_call(Tape& tape, const Program& program, const StageCall& call);
/// Behind a step's micro-batches: of a tied embedding, which the first and the last stage hold, both get the sum of
/// their gradients, each rank of the piece that it updates. Nothing on other stages.
void sum_tied_embedding(Tape& tape, const Program& program);

/// The step's message: StepState's sums over ranks.
void sum_state(Tape& tape, const Program& program);

/// Declares what the message needs.
void declare_step_sums(Program& program);
/// With ProgramOptions::sync_small_every: the copies of all data ranks become their mean, in one reduction and one
/// gather, and each rank notes how far its own was from it.
Tape make_synchronise_tape(Program& program);
/// With ProgramOptions::checks_replicas.
Tape make_replica_tape(Program& program);
Tape make_gather_tape(const Program& program);
Tape make_sum_state_tape(const Program& program);

}  // namespace litespark
