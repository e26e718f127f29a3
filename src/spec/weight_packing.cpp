// SPDX-License-Identifier: Apache-2.0
#include "spec/weight_packing.h"

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

TensorId declare_copy(Program& program, const BackendSizes& sizes, size_t index, op::PackForm form,
                      const std::string& name, Storage storage) {
  const Shape& weight = program.params.params[index].shape;
  const LinearShape shape{.rows = program.options.rank_tokens(),
                          .in_features = weight[1],
                          .out_features = weight[0],
                          .compute = program.options.compute,
                          .weights_packed = true};
  return program.tensors.add({.name = name,
                              .dtype = DType::kU8,
                              .shape = {sizes.packed_bytes(shape, form)},
                              .owner = Owner::kPackedCopies,
                              .storage = storage});
}

void push_pack(Tape& tape, Program& program, size_t index, op::PackForm form, TensorId packed) {
  if (!packed.has_value()) return;
  const PackSource source = pack_source(program, index);
  tape.push(op::PackWeight<TensorId>{.packed = packed,
                                     .weight = source.weight,
                                     .remainder = source.remainder,
                                     .scratch = source.scratch,
                                     .form = form,
                                     .compute_bf16 = program.options.compute == DType::kBF16});
}

}  // namespace

void declare_packed_copies(Program& program, const BackendSizes& sizes) {
  if (program.options.packs_on_use) return;
  for (size_t index = 0; index < program.params.params.size(); ++index) {
    const ParamSpec& spec = program.params.params[index];
    // An embedding is only looked up, never multiplied, but where it is the head too.
    const bool is_head = program.config.tie_word_embeddings && program.options.stage_place().is_last();
    const bool multiplies = spec.is_matrix() && (spec.role != ParamRole::kEmbedding || is_head);
    if (!multiplies) continue;
    ParamTensors& tensors = program.param_tensors[index];
    tensors.packed_forward = declare_copy(program, sizes, index, op::PackForm::kForward, spec.name + ".packed_forward",
                                          Storage::kPersistent);
    if (!program.options.has_training) continue;
    tensors.packed_backward = declare_copy(program, sizes, index, op::PackForm::kBackward,
                                           spec.name + ".packed_backward", Storage::kPersistent);
  }
}

void push_resident_packs(Tape& tape, Program& program) {
  for (size_t index = 0; index < program.param_tensors.size(); ++index) {
    const ParamTensors& tensors = program.param_tensors[index];
    push_pack(tape, program, index, op::PackForm::kForward, tensors.packed_forward);
    push_pack(tape, program, index, op::PackForm::kBackward, tensors.packed_backward);
  }
}

TensorId pack_on_use(Tape& tape, Program& program, const BackendSizes& sizes, size_t index, op::PackForm form,
                     const std::string& name) {
  const TensorId packed = declare_copy(program, sizes, index, form, name, Storage::kArena);
  push_pack(tape, program, index, form, packed);
  return packed;
}

}  // namespace litespark
