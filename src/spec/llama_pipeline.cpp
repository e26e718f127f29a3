// SPDX-License-Identifier: Apache-2.0
#include "spec/llama_pipeline.h"

#include <algorithm>
#include <deque>

#include "core/error.h"
#include "spec/llama_emitter.h"

namespace litespark {
namespace {

/// Writes a stage's work on the chunks of micro-batches, each with an emitter and tensors of its own.
class StageTape {
 public:
  StageTape(Program& program, const BackendSizes& sizes, Phase phase)
      : program_(program),
        sizes_(sizes),
        place_(program.options.stage_place()),
        tape_(std::string(phase_name(phase))) {}

  /// The emitter of the next chunk: a micro-batch's in order, then those of the next micro-batch.
  LlamaEmitter& add_chunk(bool accumulates) {
    const auto micro = std::ssize(work_) / place_.chunks;
    const int64_t chunk = std::ssize(work_) % place_.chunks;
    Work& added = work_.emplace_back(LlamaEmitter(program_, sizes_, tape_, program_.batch_of(micro), accumulates));
    added.emitter.take_chunk({.layers = program_.layers[static_cast<size_t>(chunk)],
                              .begins_model = place_.begins_model(chunk),
                              .begins_stage = chunk == 0});
    return added.emitter;
  }

  void run(const StageAction& action) {
    Work& work = work_[static_cast<size_t>(action.micro_batch * place_.chunks + action.chunk)];
    switch (action.kind) {
      case StageAction::Kind::kForward: return forward(work, action.chunk, true);
      case StageAction::Kind::kBackward: return backward(work, action.chunk);
      case StageAction::Kind::kSendStream: return send("forward.stages", work.leaving, 1);
      case StageAction::Kind::kSendGradient: return send("backward.stages", work.stream_gradient, -1);
      case StageAction::Kind::kReceiveStream: return receive("forward.stages", work.stream, -1);
      case StageAction::Kind::kReceiveGradient: return receive("backward.stages", work.leaving_gradient, 1);
    }
    throw InternalError("stage", "unknown action", static_cast<int>(action.kind), "a StageAction");
  }

  /// A chunk's forward alone, and its calls, which nothing runs beside.
  void evaluate(int64_t chunk) {
    Work& work = work_[static_cast<size_t>(chunk)];
    if (!place_.begins_model(chunk)) receive("forward.stages", work.stream, -1);
    forward(work, chunk, false);
    if (!place_.ends_model(chunk)) send("forward.stages", work.leaving, 1);
    await_sends();
  }

  /// The tape, on which nothing is under way any more.
  Tape finish() {
    await_sends();
    return std::move(tape_);
  }

 private:
  struct Arrival {
    TensorId tensor;  ///< [N, C]
    StageCall call;
  };
  /// A micro-batch's visit to a chunk, from its forward to its backward.
  struct Work {
    LlamaEmitter emitter;
    std::vector<BlockActivations> blocks;
    HeadActivations head;
    Arrival stream;            ///< from the stage before
    TensorId leaving;          ///< [N, C], to the next
    Arrival leaving_gradient;  ///< of it
    TensorId stream_gradient;

    explicit Work(LlamaEmitter&& of) : emitter(std::move(of)) {}
  };

  void forward(Work& work, int64_t chunk, bool trains) {
    if (!place_.begins_model(chunk)) await("forward.stages", work.stream);
    work.blocks = work.emitter.forward_blocks(work.stream.tensor);
    if (place_.ends_model(chunk)) {
      work.head = work.emitter.head_and_loss(work.blocks.back(), trains);
    } else {
      work.leaving = work.emitter.leaving_stream(work.blocks.back());
    }
    await_sends();
  }

  void backward(Work& work, int64_t chunk) {
    if (place_.ends_model(chunk)) {
      work.stream_gradient = work.emitter.backward(work.blocks, work.head);
    } else {
      await("backward.stages", work.leaving_gradient);
      work.stream_gradient = work.emitter.backward(work.blocks, work.leaving_gradient.tensor);
    }
    await_sends();
  }

  void send(std::string_view scope, TensorId tensor, int neighbour) {
    sends_.push_back({.scope = scope, .call = {.tensor = tensor, .neighbour = neighbour, .number = take_number()}});
    tape_.enter(scope);
    start_send(tape_, program_, sends_.back().call);
  }

  /// Those of the units before, beside which the one that ends here ran.
  void await_sends() {
    for (const SendUnderWay& send : sends_) {
      tape_.enter(send.scope);
      await_stage_call(tape_, program_, send.call);
      under_way_[static_cast<size_t>(send.call.number)] = false;
    }
    sends_.clear();
  }

  void receive(std::string_view scope, Arrival& arrival, int neighbour) {
    const ProgramOptions& options = program_.options;
    arrival.tensor =
        program_.tensors.add({.name = tape_.phase() + (neighbour < 0 ? ".arrived_stream" : ".arrived_gradient"),
                              .dtype = options.residual,
                              .shape = {options.rank_tokens() / options.tensor_ranks, program_.config.hidden_size},
                              .owner = Owner::kActivations,
                              .storage = Storage::kArena});
    arrival.call = {.tensor = arrival.tensor, .neighbour = neighbour, .number = take_number()};
    tape_.enter(scope);
    start_receive(tape_, program_, arrival.call);
  }

  void await(std::string_view scope, const Arrival& arrival) {
    tape_.enter(scope);
    await_stage_call(tape_, program_, arrival.call);
    under_way_[static_cast<size_t>(arrival.call.number)] = false;
  }

  /// The lowest that no call under way has.
  int take_number() {
    const auto found = std::find(under_way_.begin(), under_way_.end(), false);
    const auto number = found - under_way_.begin();
    if (found == under_way_.end()) under_way_.push_back(false);
    under_way_[static_cast<size_t>(number)] = true;
    return static_cast<int>(number);
  }

  struct SendUnderWay {
    std::string_view scope;
    StageCall call;
  };

  Program& program_;
  const BackendSizes& sizes_;
  StagePlace place_;
  Tape tape_;
  std::deque<Work> work_;
  std::vector<SendUnderWay> sends_;
  std::vector<bool> under_way_;  ///< by number
};

}  // namespace

Tape make_train_step_tape(Program& program, const BackendSizes& sizes) {
  const ProgramOptions& options = program.options;
  const bool shards_gradients = options.shards_gradients;
  StageTape stage(program, sizes, Phase::kTrainStep);
  for (int64_t micro = 0; micro < options.micro_batches; ++micro) {
    const bool is_first = micro == 0;
    const bool is_last = micro + 1 == options.micro_batches;
    for (int64_t chunk = 0; chunk < options.chunks; ++chunk) {
      LlamaEmitter& emitter = stage.add_chunk(!is_first && !shards_gradients);
      emitter.meet_ranks(
          {.gathers_weights = is_first, .reduces_gradients = is_last || shards_gradients, .is_first = is_first});
      emitter.start_gathers();  // beside the wait for the first activations
    }
  }
  for (const StageAction& action : stage_schedule(options.stage_place(), options.micro_batches)) stage.run(action);
  Tape tape = stage.finish();
  sum_tied_embedding(tape, program);
  return tape;
}

Tape make_stage_eval_tape(Program& program, const BackendSizes& sizes) {
  StageTape stage(program, sizes, Phase::kEval);
  for (int64_t chunk = 0; chunk < program.options.chunks; ++chunk) stage.add_chunk(false);
  for (int64_t chunk = 0; chunk < program.options.chunks; ++chunk) stage.evaluate(chunk);
  return stage.finish();
}

}  // namespace litespark
