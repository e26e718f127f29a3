// SPDX-License-Identifier: Apache-2.0
// The shape of a Llama-family model, as a Hugging Face config.json states it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace litespark {

/// What differs between families is explicit in ModelConfig's flags; the family itself only decides how a folder is
/// written.
enum class ModelFamily : uint8_t { kLlama, kMistral, kQwen2, kQwen3 };

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3 };

/// How a token's place enters: rotated queries and keys, or scores that fall with distance (op::alibi_slope).
enum class Positions : uint8_t { kRope, kAlibi };

/// In what cosines and sines of the rotary angles are kept. Angles themselves are made in double, always: 16 bits
/// cannot tell position 257 from 256 (bf16), or 2049 from 2048 (fp16).
enum class RopePrecision : uint8_t { kF32, kBF16, kF16 };

/// Of what rotary frequencies are made from: beyond these, quotients and powers of them leave the numbers.
inline constexpr double kLeastRope = 1e-6;
inline constexpr double kMostRope = 1e15;

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;                     ///< llama3 only
  double high_freq_factor = 4.0;                    ///< llama3 only
  int64_t original_max_position_embeddings = 8192;  ///< llama3 only
  RopePrecision precision = RopePrecision::kF32;
};

/// What stands in front of a key where a model's shape was read, so that errors name it whole.
struct ConfigPlace {
  std::string section;                    ///< "model."; "config.json: "
  std::string scaling = "rope_scaling.";  ///< where stretched rotary frequencies stand in it

  std::string key(std::string_view name) const { return section + std::string(name); }
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  int64_t vocab_size = 32000;        ///< V
  int64_t hidden_size = 768;         ///< C
  int64_t intermediate_size = 2048;  ///< F
  int64_t num_hidden_layers = 12;    ///< L
  int64_t num_attention_heads = 12;  ///< H
  int64_t num_key_value_heads = 12;  ///< K
  int64_t head_dim = 64;             ///< D; H D need not equal C
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-5;
  double initializer_range = 0.02;
  Positions positions = Positions::kRope;
  RopeConfig rope;  ///< default with ALiBi
  bool tie_word_embeddings = false;
  bool has_qkv_bias = false;
  bool has_output_bias = false;  ///< on o_proj (Llama's attention_bias sets both)
  bool has_mlp_bias = false;
  bool has_qk_norm = false;             ///< RMSNorm on query and key heads
  int64_t sliding_window = 0;           ///< 0: full attention
  std::vector<bool> layer_uses_window;  ///< one a layer; empty: all layers when sliding_window > 0
  std::vector<int64_t> bos_token_ids;   ///< usually one; empty when the model names none
  std::vector<int64_t> eos_token_ids;
  int64_t pad_token_id = -1;
  DType folder_dtype = DType::kF32;  ///< dtype that the folder's config names: what export writes by default

  int64_t qkv_features() const { return (num_attention_heads + 2 * num_key_value_heads) * head_dim; }
  int64_t attention_features() const { return num_attention_heads * head_dim; }
  /// The window of one layer, 0 = none.
  int64_t window_of_layer(int64_t layer) const;
  /// Throws ConfigError naming the field, as `place` calls it: zero or negative sizes, heads that K does not divide,
  /// odd head_dim, sizes whose products overflow or pass 2^40 parameters.
  void validate(const ConfigPlace& place = {}) const;

  bool operator==(const ModelConfig&) const;
};

/// "llama", "mistral", "qwen2", "qwen3": config.json's model_type.
std::string family_name(ModelFamily family);

/// D/2 rotation frequencies in double, scaling applied (Llama 3 scaling as in Meta's reference: wavelengths longer than
/// original / low_freq_factor are divided by `factor`, shorter than original / high_freq_factor kept, between them
/// interpolated).
std::vector<double> rope_frequencies(const RopeConfig& rope, int64_t head_dim);

/// Rows 0 .. positions-1 of the table of angles: D/2 cosines then D/2 sines, computed in double, rounded to f32.
std::vector<float> rope_table(const RopeConfig& rope, int64_t head_dim, int64_t positions);

/// "fp32", "bf16", "fp16": precision.rope.
std::string rope_precision_name(RopePrecision precision);
/// What the table is kept in.
DType rope_table_dtype(const RopeConfig& rope);
/// The table as op::Rope reads it: rope_table rounded to nearest in rope_table_dtype, as Hugging Face's models round
/// cosines and sines to the dtype of their activations.
std::vector<std::byte> stored_rope_table(const RopeConfig& rope, int64_t head_dim, int64_t positions);

}  // namespace litespark
