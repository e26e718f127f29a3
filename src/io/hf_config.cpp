// SPDX-License-Identifier: Apache-2.0
// Reading config.json: one function a subject, every field by name.
#include "io/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/checked.h"
#include "core/error.h"
#include "core/quote.h"
#include "io/file.h"
#include "io/json_code_keys.h"
#include "io/json_fields.h"
#include "io/json_file.h"

namespace litespark {
namespace {

using nlohmann::json;

constexpr std::array kFamilies = {ModelFamily::kLlama, ModelFamily::kMistral, ModelFamily::kQwen2, ModelFamily::kQwen3};

/// transformers' default, which every family here shares (configuration class attribute default_theta).
constexpr double kDefaultRopeTheta = 10000.0;
/// transformers' default for mistral, and for qwen when use_sliding_window is true.
constexpr int64_t kDefaultSlidingWindow = 4096;

ModelFamily read_family(const JsonFields& fields) {
  const std::string type = fields.get_string("model_type");
  if (type == kAlibiModelType) return ModelFamily::kLlama;
  const auto is_named_so = [&](ModelFamily family) { return family_name(family) == type; };
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(), is_named_so);
  const std::string label = fields.label("model_type");
  const std::string_view supported = "llama, mistral, qwen2 or qwen3";
  for (const char* const part : {"vision_config", "audio_config", "text_config"}) {
    if (fields.find(part) != nullptr) {
      throw ConfigError(label, "multimodal models are not supported yet", type, supported);
    }
  }
  if (family != kFamilies.end()) return *family;
  const bool is_mixture = type.find("moe") != std::string::npos || type == "mixtral" ||
                          fields.find("num_local_experts") != nullptr || fields.find("num_experts") != nullptr;
  throw ConfigError(label, is_mixture ? "mixtures of experts are not supported yet" : "is not a supported model type",
                    quote(type), supported);
}

/// "dtype" is the newer spelling of "torch_dtype"; files may have both, which must agree.
DType read_folder_dtype(const JsonFields& fields) {
  const auto name_under = [&](const char* key, const std::string& otherwise) {
    const std::string name = fields.get_string(key, otherwise);
    return name.starts_with("torch.") ? name.substr(6) : name;
  };
  const char* const key = fields.find("dtype") != nullptr ? "dtype" : "torch_dtype";
  const std::string name = name_under(key, "float32");
  // F32 is wider than needed for float16, but the narrowest of our dtypes that holds its values exactly.
  const bool is_f32 = name == "float32" || name == "float16" || name == "float64";
  if (!is_f32 && name != "bfloat16") {
    throw ConfigError(fields.label(key), "is not a dtype of weights", quote(name),
                      "float32, bfloat16, float16 or float64");
  }
  if (const std::string older = name_under("torch_dtype", name); older != name) {
    throw ConfigError(fields.label("dtype"), "contradicts torch_dtype", quote(name), quote(older));
  }
  return is_f32 ? DType::kF32 : DType::kBF16;
}

void read_sizes(const JsonFields& fields, ModelConfig& config) {
  const bool is_qwen = config.family == ModelFamily::kQwen2 || config.family == ModelFamily::kQwen3;
  const bool is_mistral = config.family == ModelFamily::kMistral;
  config.vocab_size = fields.get_int("vocab_size");
  config.hidden_size = fields.get_int("hidden_size");
  config.intermediate_size = fields.get_int("intermediate_size");
  config.num_hidden_layers = fields.get_int("num_hidden_layers");
  config.num_attention_heads = fields.get_int("num_attention_heads");
  // Absent in configs older than grouped heads, which only llama has; null means the same in every family.
  const bool may_omit = config.family == ModelFamily::kLlama || fields.contains("num_key_value_heads");
  config.num_key_value_heads = fields.get_int(
      "num_key_value_heads", may_omit ? std::optional<int64_t>(config.num_attention_heads) : std::nullopt);
  if (config.num_attention_heads <= 0) {
    throw ConfigError(fields.label("num_attention_heads"), "must be positive", config.num_attention_heads, "1 or more");
  }
  if (config.family == ModelFamily::kQwen3) {
    config.head_dim = fields.get_int("head_dim", 128);
  } else if (fields.find("head_dim") != nullptr) {
    config.head_dim = fields.get_int("head_dim");
  } else {
    if (config.hidden_size % config.num_attention_heads != 0) {
      throw ConfigError(fields.label("hidden_size"), "is not a multiple of num_attention_heads, and head_dim is absent",
                        config.hidden_size, fmt::format("a multiple of {}", config.num_attention_heads));
    }
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  config.max_position_embeddings = fields.get_int("max_position_embeddings", is_qwen      ? 32768
                                                                             : is_mistral ? 131072
                                                                                          : 2048);
  config.rms_norm_eps = fields.get_real("rms_norm_eps", 1e-6);
  config.initializer_range = fields.get_real("initializer_range", 0.02);
}

/// A flag that the family does not have may be there, but not be true: the weights would say otherwise.
bool read_family_flag(const JsonFields& fields, const char* name, bool has_flag) {
  const bool value = fields.get_bool(name, false);
  if (value && !has_flag)
    throw ConfigError(fields.label(name), "is not supported for this model type", "true", "false");
  return value;
}

void read_flags(const JsonFields& fields, ModelConfig& config) {
  const bool is_llama = config.family == ModelFamily::kLlama;
  const bool is_qwen2 = config.family == ModelFamily::kQwen2;
  const bool is_qwen3 = config.family == ModelFamily::kQwen3;
  const std::string activation = fields.get_string("hidden_act", "silu");
  if (activation != "silu") {
    throw ConfigError(fields.label("hidden_act"), "is not supported", quote(activation), "silu");
  }
  if (fields.get_real("partial_rotary_factor", 1.0) != 1.0) {
    throw ConfigError(fields.label("partial_rotary_factor"), "is not supported",
                      fields.get_real("partial_rotary_factor"), "1");
  }
  if (fields.find("quantization_config") != nullptr) {
    throw ConfigError(fields.label("quantization_config"), "quantised weights are not supported");
  }
  config.tie_word_embeddings = fields.get_bool("tie_word_embeddings", false);
  // qwen2 has its biases without a flag; what its attention_bias says is not looked at by anybody.
  const bool attention_bias = !is_qwen2 && read_family_flag(fields, "attention_bias", is_llama || is_qwen3);
  config.has_qkv_bias = attention_bias || is_qwen2;
  config.has_output_bias = attention_bias;
  config.has_mlp_bias = read_family_flag(fields, "mlp_bias", is_llama);
  config.has_qk_norm = is_qwen3;
}

std::vector<bool> read_layer_types(const JsonFields& fields, int64_t num_layers) {
  const json* const types = fields.find("layer_types");
  if (types == nullptr) return {};
  if (!types->is_array()) fields.wrong_type("layer_types", *types, "a list");
  if (std::ssize(*types) != num_layers) {
    throw ConfigError(fields.label("layer_types"), "must name every layer", types->size(), num_layers);
  }
  std::vector<bool> uses_window;
  for (const json& type : *types) {
    if (!type.is_string()) fields.wrong_type("layer_types", type, "strings");
    const auto& name = type.get_ref<const std::string&>();
    if (name != "sliding_attention" && name != "full_attention") {
      throw ConfigError(fields.label("layer_types"), "holds an attention type that is not supported", quote(name),
                        "full_attention or sliding_attention");
    }
    uses_window.push_back(name == "sliding_attention");
  }
  return uses_window;
}

/// Sets sliding_window and layer_uses_window in their one form: no window, or all layers and an empty list, or both
/// kinds of layers and a full list.
void set_window(ModelConfig& config, int64_t window, std::vector<bool> uses_window) {
  const auto windowed = std::count(uses_window.begin(), uses_window.end(), true);
  config.sliding_window = !uses_window.empty() && windowed == 0 ? 0 : window;
  if (windowed == std::ssize(uses_window) || config.sliding_window == 0) uses_window.clear();
  config.layer_uses_window = std::move(uses_window);
}

void read_window(const JsonFields& fields, ModelConfig& config) {
  if (config.family == ModelFamily::kLlama) return;  // transformers' llama has no window, whatever the file says
  std::vector<bool> uses_window = read_layer_types(fields, config.num_hidden_layers);
  const bool has_window_layers = std::find(uses_window.begin(), uses_window.end(), true) != uses_window.end();
  const int64_t window =
      fields.contains("sliding_window") ? fields.get_int("sliding_window", 0) : kDefaultSlidingWindow;
  if (config.family == ModelFamily::kMistral) {
    // transformers' mistral looks at sliding_window alone; a list that says otherwise is a different model.
    if (std::find(uses_window.begin(), uses_window.end(), window == 0) != uses_window.end()) {
      throw ConfigError(fields.label("layer_types"), "contradicts sliding_window, which mistral applies to all layers");
    }
    return set_window(config, window, {});
  }
  if (!fields.get_bool("use_sliding_window", false)) {
    if (has_window_layers) {
      throw ConfigError(fields.label("layer_types"), "names sliding layers, but use_sliding_window is false");
    }
    return set_window(config, 0, {});
  }
  const int64_t first = fields.get_int("max_window_layers", 28);
  if (uses_window.empty() && config.num_hidden_layers <= 10000) {
    for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) uses_window.push_back(layer >= first);
  }
  set_window(config, window, std::move(uses_window));
}

/// One spelling of rope; `values` may be absent.
RopeConfig read_rope_values(const JsonFields& values) {
  RopeConfig rope;
  const std::string type = values.get_string("rope_type", values.get_string("type", "default"));
  if (values.get_string("type", type) != type) {
    throw ConfigError(values.label("rope_type"), "contradicts type", quote(type), quote(values.get_string("type")));
  }
  if (type == "default") {
    if (const double factor = values.get_real("factor", 1.0); factor != 1.0) {
      throw ConfigError(values.label("factor"), "has no effect with rope_type default", factor, "1 or none",
                        "say rope_type linear or llama3 if the model was trained so");
    }
    return rope;
  }
  if (type != "linear" && type != "llama3") {
    throw ConfigError(values.label("rope_type"), "is not supported", quote(type), "default, linear or llama3");
  }
  rope.scaling = type == "linear" ? RopeScaling::kLinear : RopeScaling::kLlama3;
  rope.factor = values.get_real("factor");
  if (rope.scaling == RopeScaling::kLlama3) {
    rope.low_freq_factor = values.get_real("low_freq_factor");
    rope.high_freq_factor = values.get_real("high_freq_factor");
    rope.original_max_position_embeddings = values.get_int("original_max_position_embeddings");
  }
  return rope;
}

bool same_scaling(const RopeConfig& a, const RopeConfig& b) {
  return a.scaling == b.scaling && a.factor == b.factor && a.low_freq_factor == b.low_freq_factor &&
         a.high_freq_factor == b.high_freq_factor &&
         a.original_max_position_embeddings == b.original_max_position_embeddings;
}

RopePrecision read_rope_precision(const JsonFields& fields) {
  const std::string name = fields.get_string(kRopePrecisionKey, rope_precision_name(RopePrecision::kF32));
  for (const RopePrecision precision : {RopePrecision::kF32, RopePrecision::kBF16, RopePrecision::kF16}) {
    if (rope_precision_name(precision) == name) return precision;
  }
  throw ConfigError(fields.label(kRopePrecisionKey), "is not supported", quote(name), "fp32, bf16 or fp16");
}

RopeConfig read_rope(const JsonFields& fields, std::string_view where) {
  const json* const flat = fields.find_object("rope_scaling");
  const json* const nested = fields.find_object("rope_parameters");
  const json none = json::object();
  const JsonFields flat_fields(flat != nullptr ? *flat : none, where, "rope_scaling.");
  const JsonFields nested_fields(nested != nullptr ? *nested : none, where, "rope_parameters.");
  for (const JsonFields& part : {flat_fields, nested_fields}) {
    for (const char* const layer_type : {"full_attention", "sliding_attention"}) {
      if (part.find(layer_type) != nullptr) {
        throw ConfigError(part.label(layer_type), "angles that differ between layers are not supported");
      }
    }
    if (part.get_real("partial_rotary_factor", 1.0) != 1.0) {
      throw ConfigError(part.label("partial_rotary_factor"), "is not supported", "a part", "1");
    }
  }
  RopeConfig rope = read_rope_values(flat != nullptr ? flat_fields : nested_fields);
  if (flat != nullptr && nested != nullptr && !same_scaling(rope, read_rope_values(nested_fields))) {
    throw ConfigError(fields.label("rope_scaling"), "contradicts rope_parameters");
  }
  std::optional<double> theta;
  for (const JsonFields& part : {nested_fields, flat_fields, fields}) {
    if (part.find("rope_theta") == nullptr) continue;
    const double value = part.get_real("rope_theta");
    if (theta.value_or(value) != value) throw ConfigError(part.label("rope_theta"), "has two values", value, *theta);
    theta = value;
  }
  rope.theta = theta.value_or(kDefaultRopeTheta);
  rope.precision = read_rope_precision(fields);
  return rope;
}

std::vector<int64_t> read_token_ids(const JsonFields& fields, const char* name, int64_t vocab_size) {
  const json* const value = fields.find(name);
  if (value == nullptr) return {};
  std::vector<int64_t> ids;
  const auto add = [&](const json& id) {
    if (!id.is_number_integer()) fields.wrong_type(name, id, "an integer or a list of integers");
    ids.push_back(id.get<int64_t>());
    if (ids.back() < 0 || ids.back() >= vocab_size) {
      throw ConfigError(fields.label(name), "is outside the vocabulary", ids.back(),
                        fmt::format("0 to {}", vocab_size - 1));
    }
  };
  if (value->is_array()) {
    if (value->size() > 1000) throw ConfigError(fields.label(name), "has too many ids", value->size(), "at most 1000");
    for (const json& id : *value) add(id);
  } else if (value->is_number_integer() && value->get<int64_t>() == -1) {
    return {};  // an older way to say "none"
  } else {
    add(*value);
  }
  return ids;
}

}  // namespace

ModelConfig parse_hf_config(std::string_view text, std::string_view where) {
  const json document = parse_json(text, where);
  if (!document.is_object()) throw DataError(where, "is not a model configuration", document.type_name(), "an object");
  refuse_code_keys(document, where);
  const JsonFields fields(document, where);
  ModelConfig config;
  config.family = read_family(fields);
  if (fields.get_string("model_type") == kAlibiModelType) config.positions = Positions::kAlibi;
  config.folder_dtype = read_folder_dtype(fields);
  read_sizes(fields, config);
  read_flags(fields, config);
  if (config.positions == Positions::kRope) config.rope = read_rope(fields, where);
  read_window(fields, config);
  config.bos_token_ids = read_token_ids(fields, "bos_token_id", config.vocab_size);
  config.eos_token_ids = read_token_ids(fields, "eos_token_id", config.vocab_size);
  const std::vector<int64_t> pad = read_token_ids(fields, "pad_token_id", config.vocab_size);
  config.pad_token_id = pad.empty() ? -1 : pad.front();
  const bool is_nested = fields.find("rope_scaling") == nullptr && fields.find("rope_parameters") != nullptr;
  config.validate({.section = std::string(where) + ": ", .scaling = is_nested ? "rope_parameters." : "rope_scaling."});
  return config;
}

ModelConfig read_hf_config(const std::filesystem::path& config_json) {
  const std::string text = read_text_file(config_json, JsonLimits{}.max_bytes);
  return parse_hf_config(text, config_json.string());
}

}  // namespace litespark
