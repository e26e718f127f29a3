// SPDX-License-Identifier: Apache-2.0
#include "spec/optimizer_tape.h"

#include "core/checked.h"

namespace litespark {
namespace {

/// A stretch of the flat tensors whose parameters share a decay group. Padding between them is zero and stays zero.
struct DecayRun {
  int64_t first = 0;
  int64_t end = 0;
  bool is_decayed = false;
};

std::vector<DecayRun> decay_runs(const ParamTable& table) {
  std::vector<DecayRun> runs;
  for (auto param = table.params.rbegin(); param != table.params.rend(); ++param) {
    const int64_t end = param->flat_offset + round_up(param->shape.num_elements(), kFlatAlignment);
    if (!runs.empty() && runs.back().is_decayed == param->is_decayed) {
      runs.back().end = end;
    } else {
      runs.push_back({param->flat_offset, end, param->is_decayed});
    }
  }
  return runs;
}

}  // namespace

Tape make_pack_tape(const Program& program) {
  Tape tape{std::string(phase_name(Phase::kPack))};
  tape.enter("optimizer.pack");
  if (program.flat.weight.has_value()) {
    tape.push(op::Convert<TensorId>{.out = program.flat.weight, .x = program.flat.master});
  }
  const bool is_bf16 = program.options.compute == DType::kBF16;
  for (const ParamTensors& param : program.param_tensors) {
    if (param.packed_forward.has_value()) {
      tape.push(op::PackWeight<TensorId>{.packed = param.packed_forward,
                                         .weight = param.master,
                                         .form = op::PackForm::kForward,
                                         .compute_bf16 = is_bf16});
    }
    if (param.packed_backward.has_value()) {
      tape.push(op::PackWeight<TensorId>{.packed = param.packed_backward,
                                         .weight = param.master,
                                         .form = op::PackForm::kBackward,
                                         .compute_bf16 = is_bf16});
    }
  }
  return tape;
}

Tape make_optimizer_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kOptimizer))};
  const AdamWOptions& adamw = program.options.adamw;
  tape.enter("optimizer.norm");
  const TensorId partials = program.tensors.add({.name = "optimizer.norm_partials",
                                                 .dtype = DType::kF64,
                                                 .shape = {ceil_div(program.params.flat_size, op::kSquareSumBlock)},
                                                 .owner = Owner::kScratch,
                                                 .storage = Storage::kArena});
  tape.push(
      op::GradientSquareSum<TensorId>{.state = program.state, .gradient = program.flat.gradient, .partials = partials});
  tape.push(op::StepDecision<TensorId>{.state = program.state, .beta1 = adamw.beta1, .beta2 = adamw.beta2});
  tape.enter("optimizer.update");
  for (const DecayRun& run : decay_runs(program.params)) {
    const auto part = [&](TensorId flat, const char* what) {
      if (!flat.has_value()) return TensorId{};
      return program.tensors.view(flat, std::string("optimizer.") + what + std::to_string(run.first),
                                  {run.end - run.first}, run.first);
    };
    tape.push(op::AdamW<TensorId>{.master = part(program.flat.master, "master."),
                                  .first_moment = part(program.flat.first_moment, "first_moment."),
                                  .second_moment = part(program.flat.second_moment, "second_moment."),
                                  .weight = part(program.flat.weight, "weight."),
                                  .gradient = part(program.flat.gradient, "gradient."),
                                  .state = program.state,
                                  .beta1 = adamw.beta1,
                                  .beta2 = adamw.beta2,
                                  .eps = adamw.eps,
                                  .weight_decay = run.is_decayed ? adamw.weight_decay : 0.0});
  }
  return tape;
}

}  // namespace litespark
