// SPDX-License-Identifier: Apache-2.0
#include "spec/fp8_attention.h"

#include <string>

#include "core/error.h"

namespace litespark {
namespace {

constexpr const char* kKey = "precision.attention";
constexpr const char* kRemedy = "or set precision.attention = \"compute\"";

/// A slot starts on 16 bytes.
constexpr int64_t kSlotFloats = 4;

void require_alone(const char* key, int64_t ranks, std::string_view form) {
  if (ranks == 1) return;
  throw ConfigError(kKey, "attention on 8-bit floats has no " + std::string(form) + " form yet",
                    std::string(key) + " = " + std::to_string(ranks), std::string(key) + " = 1", kRemedy);
}

void require_model(const Program& program) {
  if (program.options.compute != DType::kBF16) {
    throw ConfigError(kKey, "fp8 is for bf16 activations", dtype_name(program.options.compute),
                      "precision.compute = \"bf16\"", kRemedy);
  }
  if (program.config.positions == Positions::kAlibi) {
    throw ConfigError(kKey, "ALiBi has no kernel on 8-bit floats", "model.positions = \"alibi\"",
                      "model.positions = \"rope\"", kRemedy);
  }
}

void require_device(const Program& program, const BackendSizes& sizes) {
  const int64_t head_dim = program.config.head_dim;
  const Fp8Support support = sizes.fp8_attention_support({.head_dim = static_cast<int>(head_dim)});
  if (support == Fp8Support::kNone) {
    throw ConfigError(kKey, "fp8 needs a Hopper GPU (compute capability 9.0) and heads of 128",
                      "this device, model.head_dim = " + std::to_string(head_dim), "model.head_dim = 128 on such a GPU",
                      kRemedy);
  }
  if (support == Fp8Support::kEmulated && !program.options.fp8_attention->allows_emulation) {
    throw ConfigError(kKey, "fp8 needs a GPU that multiplies 8-bit floats", "a CPU", "a Hopper GPU",
                      "set precision.attention = \"compute\", or \"fp8-emulated\" to see its losses on a CPU");
  }
}

}  // namespace

void declare_fp8_attention(Program& program, const BackendSizes& sizes) {
  require_alone("cluster.cp", program.options.context_ranks, "context-parallel");
  require_alone("cluster.tp", program.options.tensor_ranks, "tensor-parallel");
  require_alone("cluster.pp", program.options.stages, "pipeline-parallel");
  require_model(program);
  require_device(program, sizes);
  if (!program.options.has_training) return;
  const int64_t layers = program.config.num_hidden_layers;
  const auto add = [&](const char* name) {
    return program.tensors.add({.name = name,
                                .dtype = DType::kF32,
                                .shape = {layers * kSlotFloats},
                                .owner = Owner::kScratch,
                                .storage = Storage::kPersistent});
  };
  Fp8Tensors& fp8 = program.fp8;
  fp8.attention_abs_max = add("fp8.attention.abs_max");
  fp8.attention_scale = add("fp8.attention.scale");
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string name = "layers." + std::to_string(layer) + ".fp8.attention";
    const auto view = [&](TensorId parent, const char* part) {
      return program.tensors.view(parent, name + part, {1}, layer * kSlotFloats);
    };
    fp8.attention.push_back({.abs_max = view(fp8.attention_abs_max, ".abs_max"),
                             .column_abs_max = {},
                             .scale = view(fp8.attention_scale, ".scale"),
                             .column_scale = {}});
  }
}

}  // namespace litespark
