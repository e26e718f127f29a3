// SPDX-License-Identifier: Apache-2.0
// Writing config.json. transformers 4 and 5, llama.cpp and vLLM all read the flat rope keys; transformers 5 takes
// `dtype` first, older readers know only `torch_dtype`. ALiBi has no word there: such a model has a type of its own, so
// that no other program takes it for one with rotary positions.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "io/hf_config.h"

namespace litespark {
namespace {

using Json = nlohmann::ordered_json;

const char* architecture_name(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama: return "LlamaForCausalLM";
    case ModelFamily::kMistral: return "MistralForCausalLM";
    case ModelFamily::kQwen2: return "Qwen2ForCausalLM";
    case ModelFamily::kQwen3: return "Qwen3ForCausalLM";
  }
  throw InternalError("hf_config", "unknown family", static_cast<int>(family), "a ModelFamily");
}

void require_expressible(const ModelConfig& config, bool holds, const char* what) {
  if (!holds) {
    throw ConfigError("config.json",
                      std::string("model type ") + family_name(config.family) + " cannot express " + what);
  }
}

void check_expressible(const ModelConfig& config) {
  const bool is_llama = config.family == ModelFamily::kLlama;
  const bool is_mistral = config.family == ModelFamily::kMistral;
  const bool is_qwen2 = config.family == ModelFamily::kQwen2;
  const bool is_qwen3 = config.family == ModelFamily::kQwen3;
  require_expressible(config, config.has_qk_norm == is_qwen3, "this choice of query and key norms");
  require_expressible(config, is_llama || !config.has_mlp_bias, "MLP biases");
  if (is_llama || is_qwen3) {
    require_expressible(config, config.has_qkv_bias == config.has_output_bias, "biases on only some projections");
  } else {
    require_expressible(config, config.has_qkv_bias == is_qwen2 && !config.has_output_bias, "this choice of biases");
  }
  require_expressible(config, !is_llama || config.sliding_window == 0, "a sliding window");
  require_expressible(config, !is_mistral || config.layer_uses_window.empty(), "a window in some layers");
  require_expressible(config, is_llama || config.positions == Positions::kRope, "ALiBi");
}

Json token_ids(const std::vector<int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? Json(ids.front()) : Json(ids);
}

Json rope_scaling(const RopeConfig& rope) {
  switch (rope.scaling) {
    case RopeScaling::kNone: return nullptr;
    // `type` is what readers of the years before `rope_type` look at; they know linear, but not llama3.
    case RopeScaling::kLinear: return {{"rope_type", "linear"}, {"type", "linear"}, {"factor", rope.factor}};
    case RopeScaling::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"original_max_position_embeddings", rope.original_max_position_embeddings}};
  }
  throw InternalError("hf_config", "unknown rope scaling", static_cast<int>(rope.scaling), "a RopeScaling");
}

void add_window(const ModelConfig& config, Json& out) {
  const int64_t layers = config.num_hidden_layers;
  const bool has_window = config.sliding_window > 0;
  const Json window = has_window ? Json(config.sliding_window) : Json(nullptr);
  if (config.family == ModelFamily::kLlama) return;
  out["sliding_window"] = window;
  if (config.family == ModelFamily::kMistral) return;
  out["use_sliding_window"] = has_window;
  int64_t full_layers = 0;  // in front: all that readers without layer_types can express
  while (full_layers < layers && config.window_of_layer(full_layers) == 0) ++full_layers;
  out["max_window_layers"] = full_layers;
  Json types = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    types.push_back(config.window_of_layer(layer) > 0 ? "sliding_attention" : "full_attention");
  }
  out["layer_types"] = types;
}

}  // namespace

std::string hf_config_json(const ModelConfig& config, DType folder_dtype) {
  config.validate();
  check_expressible(config);
  if (folder_dtype != DType::kF32 && folder_dtype != DType::kBF16) {
    throw InternalError("hf_config", "dtype", dtype_name(folder_dtype), "f32 or bf16");
  }
  const char* const dtype = folder_dtype == DType::kBF16 ? "bfloat16" : "float32";
  Json out;
  const bool has_alibi = config.positions == Positions::kAlibi;
  out["architectures"] = {has_alibi ? "LitesparkAlibiForCausalLM" : architecture_name(config.family)};
  out["model_type"] = has_alibi ? std::string(kAlibiModelType) : family_name(config.family);
  out["vocab_size"] = config.vocab_size;
  out["hidden_size"] = config.hidden_size;
  out["intermediate_size"] = config.intermediate_size;
  out["num_hidden_layers"] = config.num_hidden_layers;
  out["num_attention_heads"] = config.num_attention_heads;
  out["num_key_value_heads"] = config.num_key_value_heads;
  out["head_dim"] = config.head_dim;
  out["hidden_act"] = "silu";
  out["max_position_embeddings"] = config.max_position_embeddings;
  out["rms_norm_eps"] = config.rms_norm_eps;
  out["initializer_range"] = config.initializer_range;
  if (!has_alibi) {
    out["rope_theta"] = config.rope.theta;
    out["rope_scaling"] = rope_scaling(config.rope);
    if (config.rope.precision != RopePrecision::kF32)
      out[kRopePrecisionKey] = rope_precision_name(config.rope.precision);
  }
  out["tie_word_embeddings"] = config.tie_word_embeddings;
  out["attention_dropout"] = 0.0;
  if (config.family == ModelFamily::kLlama || config.family == ModelFamily::kQwen3) {
    out["attention_bias"] = config.has_qkv_bias;
  }
  if (config.family == ModelFamily::kLlama) out["mlp_bias"] = config.has_mlp_bias;
  add_window(config, out);
  out["bos_token_id"] = token_ids(config.bos_token_ids);
  out["eos_token_id"] = token_ids(config.eos_token_ids);
  out["pad_token_id"] = config.pad_token_id < 0 ? Json(nullptr) : Json(config.pad_token_id);
  out["use_cache"] = true;
  out["dtype"] = dtype;
  out["torch_dtype"] = dtype;
  return out.dump(2) + "\n";
}

std::string hf_generation_config_json(const ModelConfig& config) {
  Json out;
  if (!config.bos_token_ids.empty()) out["bos_token_id"] = token_ids(config.bos_token_ids);
  if (!config.eos_token_ids.empty()) out["eos_token_id"] = token_ids(config.eos_token_ids);
  if (config.pad_token_id >= 0) out["pad_token_id"] = config.pad_token_id;
  return out.empty() ? "" : out.dump(2) + "\n";
}

}  // namespace litespark
