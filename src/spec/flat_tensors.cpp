// SPDX-License-Identifier: Apache-2.0
#include "spec/flat_tensors.h"

#include "core/checked.h"

namespace litespark {
namespace {

enum class Group : uint8_t { kNone, kAll, kMatrices, kVectors, kBlockMatrices, kAllButBlockMatrices };

bool contains(Group group, const ParamSpec& spec) {
  const bool is_block_matrix = spec.is_matrix() && spec.layer >= 0;
  switch (group) {
    case Group::kNone: return false;
    case Group::kAll: return true;
    case Group::kMatrices: return spec.is_matrix();
    case Group::kVectors: return !spec.is_matrix();
    case Group::kBlockMatrices: return is_block_matrix;
    case Group::kAllButBlockMatrices: return !is_block_matrix;
  }
  return false;
}

struct FlatSpec {
  const char* name;
  DType dtype;
  Owner owner;
  Group group;
  TensorId ParamTensors::*view;
  Storage storage = Storage::kPersistent;
};

/// A flat tensor of the group's parameters, each with a view in param_tensors. Absent when the group is empty.
TensorId declare_flat(Program& program, const FlatSpec& flat) {
  std::vector<int64_t> offsets(program.params.params.size(), -1);
  int64_t size = 0;
  for (size_t index = offsets.size(); index-- > 0;) {
    const ParamSpec& spec = program.params.params[index];
    if (!contains(flat.group, spec)) continue;
    offsets[index] = size;
    size += round_up(spec.shape.num_elements(), kFlatAlignment);
  }
  if (size == 0) return {};
  const TensorId parent = program.tensors.add(
      {.name = flat.name, .dtype = flat.dtype, .shape = {size}, .owner = flat.owner, .storage = flat.storage});
  for (size_t index = 0; index < offsets.size(); ++index) {
    if (offsets[index] < 0) continue;
    const ParamSpec& spec = program.params.params[index];
    program.param_tensors[index].*flat.view =
        program.tensors.view(parent, spec.name + "." + flat.name, spec.shape, offsets[index]);
  }
  return parent;
}

void declare_weights(Program& program, bool packs) {
  const ProgramOptions& options = program.options;
  const bool has_masters = options.master == MasterWeights::kF32;
  const bool has_copies = options.compute == DType::kBF16 && !packs;
  const bool has_remainders = options.master == MasterWeights::kBF16Remainder;
  program.flat.master = declare_flat(program, {.name = "master",
                                               .dtype = DType::kF32,
                                               .owner = Owner::kOptimizer,
                                               .group = has_masters ? Group::kAll : Group::kVectors,
                                               .view = &ParamTensors::master});
  program.flat.weight = declare_flat(program, {.name = "weight",
                                               .dtype = DType::kBF16,
                                               .owner = Owner::kWeights,
                                               .group = has_masters && !has_copies ? Group::kNone : Group::kMatrices,
                                               .view = &ParamTensors::weight});
  program.flat.remainder = declare_flat(program, {.name = "remainder",
                                                  .dtype = DType::kU16,
                                                  .owner = Owner::kOptimizer,
                                                  .group = has_remainders ? Group::kMatrices : Group::kNone,
                                                  .view = &ParamTensors::remainder});
}

void declare_gradients(Program& program) {
  const bool has_bf16 = program.options.gradient == DType::kBF16;
  const Storage storage = program.options.carries_gradients ? Storage::kCarried : Storage::kPersistent;
  program.flat.gradient = declare_flat(program, {.name = "gradient",
                                                 .dtype = DType::kF32,
                                                 .owner = Owner::kGradients,
                                                 .group = has_bf16 ? Group::kAllButBlockMatrices : Group::kAll,
                                                 .view = &ParamTensors::gradient,
                                                 .storage = storage});
  program.flat.gradient_bf16 = declare_flat(program, {.name = "gradient_bf16",
                                                      .dtype = DType::kBF16,
                                                      .owner = Owner::kGradients,
                                                      .group = has_bf16 ? Group::kBlockMatrices : Group::kNone,
                                                      .view = &ParamTensors::gradient,
                                                      .storage = storage});
}

void declare_optimizer(Program& program) {
  declare_gradients(program);
  const auto moment = [&](const char* name, TensorId ParamTensors::*view) {
    return declare_flat(program, {.name = name,
                                  .dtype = program.options.moments,
                                  .owner = Owner::kOptimizer,
                                  .group = Group::kAll,
                                  .view = view});
  };
  program.flat.first_moment = moment("first_moment", &ParamTensors::first_moment);
  program.flat.second_moment = moment("second_moment", &ParamTensors::second_moment);
}

}  // namespace

void declare_flat_tensors(Program& program, bool packs) {
  program.param_tensors.resize(program.params.params.size());
  declare_weights(program, packs);
  if (program.options.has_training) declare_optimizer(program);
  for (size_t index = 0; index < program.param_tensors.size(); ++index) {
    program.shards.push_back({.first = 0,
                              .count = program.params.params[index].shape.num_elements(),
                              .tensors = program.param_tensors[index]});
  }
}

}  // namespace litespark
