// SPDX-License-Identifier: Apache-2.0
#include "spec/optimizer_tape.h"

#include "core/checked.h"

namespace litespark {
namespace {

/// What PackWeight reads a parameter from: its f32 master, or its halves with room to join them.
struct PackSource {
  TensorId weight, remainder, scratch;
};

PackSource pack_source(Program& program, size_t index) {
  const ParamTensors& tensors = program.param_tensors[index];
  if (tensors.master.has_value()) return {.weight = tensors.master, .remainder = {}, .scratch = {}};
  const ParamSpec& spec = program.params.params[index];
  return {.weight = tensors.weight,
          .remainder = tensors.remainder,
          .scratch = program.tensors.add({.name = spec.name + ".pack_scratch",
                                          .dtype = DType::kF32,
                                          .shape = spec.shape,
                                          .owner = Owner::kScratch,
                                          .storage = Storage::kArena})};
}

void push_pack(Tape& tape, Program& program, size_t index, op::PackForm form) {
  const ParamTensors& tensors = program.param_tensors[index];
  const TensorId packed = form == op::PackForm::kForward ? tensors.packed_forward : tensors.packed_backward;
  if (!packed.has_value()) return;
  const PackSource source = pack_source(program, index);
  tape.push(op::PackWeight<TensorId>{.packed = packed,
                                     .weight = source.weight,
                                     .remainder = source.remainder,
                                     .scratch = source.scratch,
                                     .form = form,
                                     .compute_bf16 = program.options.compute == DType::kBF16});
}

void push_square_sum(Tape& tape, Program& program, TensorId gradient, const char* name) {
  if (!gradient.has_value()) return;
  const int64_t size = program.tensors[gradient].shape.num_elements();
  const TensorId partials = program.tensors.add({.name = name,
                                                 .dtype = DType::kF64,
                                                 .shape = {ceil_div(size, op::kSquareSumBlock)},
                                                 .owner = Owner::kScratch,
                                                 .storage = Storage::kArena});
  tape.push(op::GradientSquareSum<TensorId>{.state = program.state, .gradient = gradient, .partials = partials});
}

void push_update(Tape& tape, const Program& program, size_t index) {
  const ParamSpec& spec = program.params.params[index];
  const ParamTensors& tensors = program.param_tensors[index];
  const AdamWOptions& adamw = program.options.adamw;
  const bool has_copy = tensors.weight.has_value() && tensors.weight != tensors.master;
  tape.push(op::AdamW<TensorId>{.master = tensors.master,
                                .first_moment = tensors.first_moment,
                                .second_moment = tensors.second_moment,
                                .weight = has_copy ? tensors.weight : TensorId{},
                                .remainder = tensors.remainder,
                                .gradient = tensors.gradient,
                                .state = program.state,
                                .beta1 = adamw.beta1,
                                .beta2 = adamw.beta2,
                                .eps = adamw.eps,
                                .weight_decay = spec.is_decayed ? adamw.weight_decay : 0.0,
                                .seed = adamw.seed,
                                .first_element = spec.flat_offset});
}

}  // namespace

Tape make_pack_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kPack))};
  tape.enter("optimizer.pack");
  for (size_t index = 0; index < program.param_tensors.size(); ++index) {
    push_pack(tape, program, index, op::PackForm::kForward);
    push_pack(tape, program, index, op::PackForm::kBackward);
  }
  return tape;
}

Tape make_checksum_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kChecksum))};
  tape.enter("check.gradients");
  const std::vector<ParamSpec>& params = program.params.params;
  program.checksums = program.tensors.add({.name = "checksums",
                                           .dtype = DType::kI64,
                                           .shape = {std::ssize(params)},
                                           .owner = Owner::kScratch,
                                           .storage = Storage::kPersistent});
  for (int64_t p = 0; p < std::ssize(params); ++p) {
    const auto index = static_cast<size_t>(p);
    const TensorId out = program.tensors.view(program.checksums, params[index].name + ".checksum", {1}, p);
    tape.push(op::Checksum<TensorId>{.out = out, .x = program.param_tensors[index].gradient});
  }
  return tape;
}

Tape make_optimizer_tape(Program& program) {
  Tape tape{std::string(phase_name(Phase::kOptimizer))};
  const AdamWOptions& adamw = program.options.adamw;
  tape.enter("optimizer.norm");
  push_square_sum(tape, program, program.flat.gradient, "optimizer.norm_partials");
  push_square_sum(tape, program, program.flat.gradient_bf16, "optimizer.norm_partials_bf16");
  tape.push(op::StepDecision<TensorId>{.state = program.state, .beta1 = adamw.beta1, .beta2 = adamw.beta2});
  tape.enter("optimizer.update");
  for (size_t index = program.params.params.size(); index-- > 0;) push_update(tape, program, index);
  return tape;
}

}  // namespace litespark
