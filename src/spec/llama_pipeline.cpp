// SPDX-License-Identifier: Apache-2.0
#include "spec/llama_pipeline.h"

#include <deque>

#include "core/error.h"
#include "spec/llama_emitter.h"

namespace litespark {
namespace {

/// Writes a stage's work on micro-batches, each with an emitter and tensors of its own.
class StageTape {
 public:
  StageTape(Program& program, const BackendSizes& sizes, Phase phase)
      : program_(program),
        sizes_(sizes),
        place_(program.options.stage_place()),
        tape_(std::string(phase_name(phase))) {}

  /// The emitter of the next micro-batch.
  LlamaEmitter& add_micro_batch(bool accumulates) {
    const auto index = std::ssize(emitters_);
    in_flight_.emplace_back();
    return emitters_.emplace_back(program_, sizes_, tape_, program_.batch_of(index), accumulates);
  }

  void run(const StageAction& action) {
    switch (action.kind) {
      case StageAction::Kind::kForward: return forward(action.micro_batch, true);
      case StageAction::Kind::kBackward: return backward(action.micro_batch);
      case StageAction::Kind::kMeetPrevious: return meet_previous(action.sent, action.received);
      case StageAction::Kind::kMeetNext: return meet_next(action.sent, action.received);
    }
    throw InternalError("stage", "unknown action", static_cast<int>(action.kind), "a StageAction");
  }

  void forward(int64_t micro, bool trains) {
    InFlight& mine = of(micro);
    LlamaEmitter& emitter = emitters_[static_cast<size_t>(micro)];
    mine.blocks = emitter.forward_blocks(mine.stream);
    if (place_.is_last()) {
      mine.head = emitter.head_and_loss(mine.blocks.back(), trains);
    } else {
      mine.leaving = emitter.leaving_stream(mine.blocks.back());
    }
  }

  void meet_previous(int64_t sent, int64_t received) {
    if (place_.is_first()) return;
    tape_.enter(sent < 0 ? "forward.stages" : "backward.stages");
    if (received >= 0) of(received).stream = stream_tensor(".arrived", Owner::kActivations);
    meet_stage(tape_, program_,
               {.received = received < 0 ? TensorId{} : of(received).stream,
                .sent = sent < 0 ? TensorId{} : of(sent).stream_gradient,
                .neighbour = -1});
  }

  void meet_next(int64_t sent, int64_t received) {
    if (place_.is_last()) return;
    tape_.enter(received < 0 ? "forward.stages" : "backward.stages");
    if (received >= 0) of(received).leaving_gradient = stream_tensor(".arrived_gradient", Owner::kActivations);
    meet_stage(tape_, program_,
               {.received = received < 0 ? TensorId{} : of(received).leaving_gradient,
                .sent = sent < 0 ? TensorId{} : of(sent).leaving,
                .neighbour = 1});
  }

  Tape& tape() { return tape_; }

 private:
  /// A micro-batch between its forward and its backward.
  struct InFlight {
    std::vector<BlockActivations> blocks;
    HeadActivations head;
    TensorId stream, leaving;                    ///< [N, C] that came from the stage before, that goes to the next
    TensorId stream_gradient, leaving_gradient;  ///< of them
  };

  InFlight& of(int64_t micro) { return in_flight_[static_cast<size_t>(micro)]; }

  void backward(int64_t micro) {
    InFlight& mine = of(micro);
    LlamaEmitter& emitter = emitters_[static_cast<size_t>(micro)];
    mine.stream_gradient = place_.is_last() ? emitter.backward(mine.blocks, mine.head)
                                            : emitter.backward(mine.blocks, mine.leaving_gradient);
  }

  TensorId stream_tensor(const char* name, Owner owner) {
    const ProgramOptions& options = program_.options;
    return program_.tensors.add(
        {.name = tape_.phase() + name,
         .dtype = options.residual,
         .shape = {options.batch.num_tokens / options.tensor_ranks, program_.config.hidden_size},
         .owner = owner,
         .storage = Storage::kArena});
  }

  Program& program_;
  const BackendSizes& sizes_;
  StagePlace place_;
  Tape tape_;
  std::deque<LlamaEmitter> emitters_;
  std::deque<InFlight> in_flight_;
};

}  // namespace

Tape make_train_step_tape(Program& program, const BackendSizes& sizes) {
  const int64_t micro_batches = program.options.micro_batches;
  const bool shards_gradients = program.options.shards_gradients;
  StageTape stage(program, sizes, Phase::kTrainStep);
  for (int64_t micro = 0; micro < micro_batches; ++micro) {
    const bool is_first = micro == 0;
    const bool is_last = micro + 1 == micro_batches;
    LlamaEmitter& emitter = stage.add_micro_batch(!is_first && !shards_gradients);
    emitter.meet_ranks(
        {.gathers_weights = is_first, .reduces_gradients = is_last || shards_gradients, .is_first = is_first});
    if (is_first) emitter.start_gathers();  // beside the wait for the first activations
  }
  for (const StageAction& action : one_forward_one_backward(program.options.stage_place(), micro_batches)) {
    stage.run(action);
  }
  sum_tied_embedding(stage.tape(), program);
  return std::move(stage.tape());
}

Tape make_stage_eval_tape(Program& program, const BackendSizes& sizes) {
  StageTape stage(program, sizes, Phase::kEval);
  stage.add_micro_batch(false);
  stage.meet_previous(-1, 0);
  stage.forward(0, false);
  stage.meet_next(0, -1);
  return std::move(stage.tape());
}

}  // namespace litespark
