// SPDX-License-Identifier: Apache-2.0
#include "spec/fp8_tensors.h"

#include <tuple>
#include <utility>

#include "core/checked.h"
#include "core/error.h"

namespace litespark {
namespace {

/// Of the operands of an 8-bit matmul, in elements: contiguous dimensions are whole 16-byte pieces.
constexpr int64_t kMultiple = 16;
/// A slot starts on 16 bytes.
constexpr int64_t kSlotAlignment = 4;

void check_multiple(const char* key, int64_t value) {
  if (value % kMultiple == 0) return;
  throw ConfigError(key, "does not fit 8-bit matmuls", value, "a multiple of 16",
                    "or set precision.matmul = \"compute\"");
}

void check_fits(const Program& program, const BackendSizes& sizes) {
  const ModelConfig& config = program.config;
  const Fp8Options& options = *program.options.fp8;
  if (program.options.compute != DType::kBF16) {
    throw ConfigError("precision.matmul", "fp8 is for bf16 activations", dtype_name(program.options.compute),
                      "precision.compute = \"bf16\"");
  }
  const Fp8Support support = sizes.fp8_support();
  if (support == Fp8Support::kNone || (support == Fp8Support::kEmulated && !options.allows_emulation)) {
    throw ConfigError("precision.matmul", "fp8 needs a GPU that multiplies 8-bit floats",
                      support == Fp8Support::kNone ? "a GPU below compute capability 8.9" : "a CPU",
                      "compute capability 8.9 or more",
                      "set precision.matmul = \"compute\", or \"fp8-emulated\" to see its losses on a CPU");
  }
  check_multiple("tokens of a micro-batch (train.micro_batch x data.seq_len)", program.options.batch.num_tokens);
  check_multiple("model.hidden_size", config.hidden_size);
  check_multiple("model.intermediate_size", config.intermediate_size);
  check_multiple("query features (num_attention_heads x head_dim)", config.attention_features());
  check_multiple("query, key and value features", config.qkv_features());
}

/// The sizes of slots one after another, then views of two tensors that hold them all.
class SlotRow {
 public:
  SlotRow(Program& program, std::string name) : program_(program), name_(std::move(name)) {}

  /// Of an [rows, columns] tensor.
  void append(int64_t rows, int64_t columns) {
    const bool by_row = program_.options.fp8->scaling == Fp8Scaling::kRow;
    shapes_.push_back({by_row ? rows : 1, by_row ? columns : 0});
  }

  /// Returns the two tensors and leaves the slots in `take`'s order.
  std::pair<TensorId, TensorId> declare() {
    int64_t size = 0;
    for (const auto& [count, columns] : shapes_) {
      size += round_up(count, kSlotAlignment) + round_up(columns, kSlotAlignment);
    }
    const auto add = [&](const char* what) {
      return program_.tensors.add({.name = name_ + what,
                                   .dtype = DType::kF32,
                                   .shape = {size},
                                   .owner = Owner::kScratch,
                                   .storage = Storage::kPersistent});
    };
    abs_max_ = add(".abs_max");
    scale_ = add(".scale");
    return {abs_max_, scale_};
  }

  Fp8Slot take(const std::string& name) {
    const auto [count, columns] = shapes_.at(next_++);
    Fp8Slot slot;
    slot.abs_max = view(abs_max_, name + ".abs_max", count);
    slot.scale = view(scale_, name + ".scale", count);
    offset_ += round_up(count, kSlotAlignment);
    if (columns == 0) return slot;
    slot.column_abs_max = view(abs_max_, name + ".column_abs_max", columns);
    slot.column_scale = view(scale_, name + ".column_scale", columns);
    offset_ += round_up(columns, kSlotAlignment);
    return slot;
  }

 private:
  TensorId view(TensorId parent, const std::string& name, int64_t count) {
    return program_.tensors.view(parent, name, {count}, offset_);
  }

  Program& program_;
  std::string name_;
  std::vector<std::pair<int64_t, int64_t>> shapes_;
  TensorId abs_max_, scale_;
  size_t next_ = 0;
  int64_t offset_ = 0;
};

bool has_fp8_copies(const ParamSpec& spec) {
  return spec.is_matrix() && spec.layer >= 0;
}

void declare_weights(Program& program) {
  SlotRow slots(program, "fp8.weights");
  for (const ParamSpec& spec : program.params.params) {
    if (has_fp8_copies(spec)) slots.append(spec.shape[0], spec.shape[1]);
  }
  std::tie(program.fp8.weight_abs_max, program.fp8.weight_scale) = slots.declare();
  for (size_t index = 0; index < program.params.params.size(); ++index) {
    const ParamSpec& spec = program.params.params[index];
    if (!has_fp8_copies(spec)) continue;
    const auto copy = [&](const char* what, Shape shape) {
      return program.tensors.add({.name = spec.name + what,
                                  .dtype = DType::kE4M3,
                                  .shape = shape,
                                  .owner = Owner::kPackedCopies,
                                  .storage = Storage::kPersistent});
    };
    program.param_tensors[index].fp8 = {.copy = copy(".fp8", spec.shape),
                                        .transposed = copy(".fp8_transposed", {spec.shape[1], spec.shape[0]}),
                                        .slot = slots.take(spec.name + ".fp8")};
  }
}

/// Columns of the tensors of a block that are brought to 8 bits, by Fp8Site; all have a row a token.
std::array<int64_t, kNumFp8Sites> site_columns(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  return {hidden, config.attention_features(),  hidden, config.intermediate_size, config.qkv_features(),
          hidden, 2 * config.intermediate_size, hidden};
}

constexpr std::array<const char*, kNumFp8Sites> kSiteNames = {"qkv_input",        "output_input", "gate_up_input",
                                                              "down_input",       "qkv_gradient", "output_gradient",
                                                              "gate_up_gradient", "down_gradient"};

void declare_sites(Program& program) {
  const std::array<int64_t, kNumFp8Sites> columns = site_columns(program.config);
  SlotRow slots(program, "fp8");
  for (int64_t layer = 0; layer < program.config.num_hidden_layers; ++layer) {
    for (const int64_t count : columns) slots.append(program.options.batch.num_tokens, count);
  }
  std::tie(program.fp8.abs_max, program.fp8.scale) = slots.declare();
  for (int64_t layer = 0; layer < program.config.num_hidden_layers; ++layer) {
    auto& sites = program.fp8.layers.emplace_back();
    for (size_t site = 0; site < kNumFp8Sites; ++site) {
      sites[site] = slots.take("layers." + std::to_string(layer) + ".fp8." + kSiteNames[site]);
    }
  }
}

/// What matmuls would read without 8 bits.
TensorId multiplied_weight(const ParamTensors& tensors) {
  return tensors.weight.has_value() ? tensors.weight : tensors.master;
}

}  // namespace

void declare_fp8_tensors(Program& program, const BackendSizes& sizes) {
  check_fits(program, sizes);
  if (!program.options.has_training) return;
  declare_weights(program);
  declare_sites(program);
}

bool optimizer_measures_weights(const Program& program) {
  return program.fp8.weight_abs_max.has_value() && program.options.fp8->scaling == Fp8Scaling::kTensor &&
         program.buckets.empty();
}

void push_fp8_magnitudes(Tape& tape, const Program& program) {
  tape.push(op::Clear<TensorId>{.x = program.fp8.weight_abs_max, .state = {}});
  for (const ParamTensors& tensors : program.param_tensors) {
    const Fp8Slot& slot = tensors.fp8.slot;
    if (!tensors.fp8.copy.has_value()) continue;
    tape.push(op::AbsMax<TensorId>{
        .abs_max = slot.abs_max, .column_abs_max = slot.column_abs_max, .x = multiplied_weight(tensors)});
  }
}

void push_fp8_weights(Tape& tape, const Program& program) {
  if (!program.fp8.weight_abs_max.has_value()) return;
  if (!optimizer_measures_weights(program)) push_fp8_magnitudes(tape, program);
  for (const ParamTensors& tensors : program.param_tensors) {
    const Fp8Weight& fp8 = tensors.fp8;
    if (!fp8.copy.has_value()) continue;
    tape.push(op::QuantizeFp8<TensorId>{.q = fp8.copy,
                                        .q_transposed = fp8.transposed,
                                        .scale = fp8.slot.scale,
                                        .column_scale = fp8.slot.column_scale,
                                        .x = multiplied_weight(tensors),
                                        .abs_max = fp8.slot.abs_max,
                                        .column_abs_max = fp8.slot.column_abs_max,
                                        .state = program.state,
                                        .kind = op::Fp8Kind::kWeight});
  }
}

}  // namespace litespark
