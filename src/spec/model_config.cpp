// SPDX-License-Identifier: Apache-2.0
#include "spec/model_config.h"

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <tuple>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/json_text.h"

namespace litespark {
namespace {

constexpr int64_t kMaxParameters = int64_t{1} << 40;

void require_positive(const std::string& field, int64_t value) {
  if (value <= 0) throw ConfigError(field, "must be positive", value, "1 or more");
  if (value > kMaxParameters) throw ConfigError(field, "is too large", value, "at most 2^40");
}

double llama3_frequency(const RopeConfig& rope, double frequency) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double original = static_cast<double>(rope.original_max_position_embeddings);
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  const double smooth = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

void validate_rope(const RopeConfig& rope, const ConfigPlace& place) {
  if (!(rope.theta >= kLeastRope) || !(rope.theta <= kMostRope)) {
    throw ConfigError(place.key("rope_theta"), "out of range", rope.theta, "1e-6 to 1e15, for example 10000");
  }
  const auto scaling = [&](const char* key) { return place.key(place.scaling + key); };
  if (!(rope.factor >= kLeastRope) || !(rope.factor <= kMostRope)) {
    throw ConfigError(scaling("factor"), "out of range", rope.factor, "1e-6 to 1e15, for example 8");
  }
  if (rope.scaling != RopeScaling::kLlama3) return;
  require_positive(scaling("original_max_position_embeddings"), rope.original_max_position_embeddings);
  if (!(rope.low_freq_factor >= kLeastRope) || !(rope.low_freq_factor <= kMostRope)) {
    throw ConfigError(scaling("low_freq_factor"), "out of range", rope.low_freq_factor, "1e-6 to 1e15, usually 1");
  }
  if (!(rope.high_freq_factor > rope.low_freq_factor) || !(rope.high_freq_factor <= kMostRope)) {
    throw ConfigError(scaling("high_freq_factor"), "must exceed low_freq_factor", rope.high_freq_factor,
                      "more than " + json_number(rope.low_freq_factor) + ", at most 1e15");
  }
}

/// Matrices of a shape, by the size that they share with the residual stream's.
void validate_parameters(const ModelConfig& config, const ConfigPlace& place) {
  const int64_t hidden = config.hidden_size;
  const std::tuple<const char*, int64_t, int64_t> widths[] = {
      {"vocab_size", config.vocab_size, config.vocab_size},
      {"intermediate_size", config.intermediate_size, config.intermediate_size * 3},
      {"num_attention_heads", config.num_attention_heads, config.qkv_features() * 2}};
  for (const auto& [name, size, columns] : widths) {
    const auto elements = checked_mul(hidden, columns);
    const auto total = elements ? checked_mul(*elements, config.num_hidden_layers) : std::nullopt;
    if (total && *total <= kMaxParameters) continue;
    throw ConfigError(place.key("hidden_size"), "gives a model of more than 2^40 parameters",
                      std::to_string(hidden) + " with " + place.key(name) + " = " + std::to_string(size) + " and " +
                          std::to_string(config.num_hidden_layers) + " layers",
                      "a smaller shape");
  }
}

}  // namespace

int64_t ModelConfig::window_of_layer(int64_t layer) const {
  if (sliding_window == 0) return 0;
  if (layer_uses_window.empty()) return sliding_window;
  return layer_uses_window.at(static_cast<size_t>(layer)) ? sliding_window : 0;
}

void ModelConfig::validate(const ConfigPlace& place) const {
  const std::array<std::pair<const char*, int64_t>, 8> sizes = {{{"vocab_size", vocab_size},
                                                                 {"hidden_size", hidden_size},
                                                                 {"intermediate_size", intermediate_size},
                                                                 {"num_hidden_layers", num_hidden_layers},
                                                                 {"num_attention_heads", num_attention_heads},
                                                                 {"num_key_value_heads", num_key_value_heads},
                                                                 {"head_dim", head_dim},
                                                                 {"max_position_embeddings", max_position_embeddings}}};
  for (const auto& [field, value] : sizes) require_positive(place.key(field), value);
  if (num_hidden_layers > 10000)
    throw ConfigError(place.key("num_hidden_layers"), "is too large", num_hidden_layers, "at most 10000");
  if (vocab_size > INT32_MAX) throw ConfigError(place.key("vocab_size"), "is too large", vocab_size, "less than 2^31");
  if (head_dim > 1024 || head_dim % 2 != 0) {
    throw ConfigError(place.key("head_dim"), "must be even and at most 1024", head_dim,
                      "an even number, usually 64 or 128");
  }
  if (num_attention_heads > 65536)
    throw ConfigError(place.key("num_attention_heads"), "is too large", num_attention_heads, "at most 65536");
  if (num_attention_heads % num_key_value_heads != 0) {
    throw ConfigError(place.key("num_key_value_heads"), "must divide num_attention_heads", num_key_value_heads,
                      "a divisor of " + std::to_string(num_attention_heads));
  }
  if (sliding_window < 0)
    throw ConfigError(place.key("sliding_window"), "must not be negative", sliding_window, "0 or more");
  if (!layer_uses_window.empty() && std::cmp_not_equal(layer_uses_window.size(), num_hidden_layers)) {
    throw ConfigError(place.key("layer_types"), "must name every layer", layer_uses_window.size(), num_hidden_layers);
  }
  if (!(rms_norm_eps >= 1e-30) || rms_norm_eps > 1.0)
    throw ConfigError(place.key("rms_norm_eps"), "out of range", rms_norm_eps, "1e-30 to 1");
  if (!(initializer_range >= 0.0) || initializer_range > 10.0) {
    throw ConfigError(place.key("initializer_range"), "out of range", initializer_range, "0 to 10");
  }
  validate_rope(rope, place);
  validate_parameters(*this, place);
}

bool ModelConfig::operator==(const ModelConfig& other) const {
  const auto key = [](const ModelConfig& c) {
    return std::tuple(c.family, c.vocab_size, c.hidden_size, c.intermediate_size, c.num_hidden_layers,
                      c.num_attention_heads, c.num_key_value_heads, c.head_dim, c.max_position_embeddings,
                      c.rms_norm_eps, c.initializer_range, c.positions, c.rope.theta, c.rope.scaling, c.rope.factor,
                      c.rope.low_freq_factor, c.rope.high_freq_factor, c.rope.original_max_position_embeddings,
                      c.rope.precision, c.tie_word_embeddings, c.has_qkv_bias, c.has_output_bias, c.has_mlp_bias,
                      c.has_qk_norm, c.sliding_window, c.layer_uses_window, c.bos_token_ids, c.eos_token_ids,
                      c.pad_token_id, c.folder_dtype);
  };
  return key(*this) == key(other);
}

std::string family_name(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama: return "llama";
    case ModelFamily::kMistral: return "mistral";
    case ModelFamily::kQwen2: return "qwen2";
    case ModelFamily::kQwen3: return "qwen3";
  }
  throw InternalError("family_name", "unknown family", static_cast<int>(family), "a ModelFamily");
}

std::vector<double> rope_frequencies(const RopeConfig& rope, int64_t head_dim) {
  std::vector<double> frequencies(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    switch (rope.scaling) {
      case RopeScaling::kNone: frequencies[i] = frequency; break;
      case RopeScaling::kLinear: frequencies[i] = frequency / rope.factor; break;
      case RopeScaling::kLlama3: frequencies[i] = llama3_frequency(rope, frequency); break;
    }
  }
  return frequencies;
}

std::vector<float> rope_table(const RopeConfig& rope, int64_t head_dim, int64_t positions) {
  const std::vector<double> frequencies = rope_frequencies(rope, head_dim);
  const size_t half = frequencies.size();
  std::vector<float> table(static_cast<size_t>(positions * head_dim));
  for (size_t p = 0; p < static_cast<size_t>(positions); ++p) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      table[p * 2 * half + i] = static_cast<float>(std::cos(angle));
      table[p * 2 * half + half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

std::string rope_precision_name(RopePrecision precision) {
  switch (precision) {
    case RopePrecision::kF32: return "fp32";
    case RopePrecision::kBF16: return "bf16";
    case RopePrecision::kF16: return "fp16";
  }
  throw InternalError("rope_precision_name", "unknown precision", static_cast<int>(precision), "a RopePrecision");
}

DType rope_table_dtype(const RopeConfig& rope) {
  switch (rope.precision) {
    case RopePrecision::kF32: return DType::kF32;
    case RopePrecision::kBF16: return DType::kBF16;
    case RopePrecision::kF16: return DType::kF16;
  }
  throw InternalError("rope_table_dtype", "unknown precision", static_cast<int>(rope.precision), "a RopePrecision");
}

std::vector<std::byte> stored_rope_table(const RopeConfig& rope, int64_t head_dim, int64_t positions) {
  const std::vector<float> table = rope_table(rope, head_dim, positions);
  const DType dtype = rope_table_dtype(rope);
  std::vector<std::byte> stored(table.size() * static_cast<size_t>(dtype_bytes(dtype)));
  const auto fill = [&](auto rounded) {
    for (size_t i = 0; i < table.size(); ++i) {
      const auto value = rounded(table[i]);
      std::memcpy(stored.data() + i * sizeof(value), &value, sizeof(value));
    }
  };
  switch (dtype) {
    case DType::kBF16: fill([](float value) { return to_bf16(value); }); break;
    case DType::kF16: fill([](float value) { return to_fp16(value); }); break;
    default: fill([](float value) { return value; }); break;
  }
  return stored;
}

}  // namespace litespark
