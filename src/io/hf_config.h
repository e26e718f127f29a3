// SPDX-License-Identifier: Apache-2.0
// config.json of a Hugging Face folder <-> ModelConfig, in every spelling of the families that we train.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "spec/model_config.h"

namespace litespark {

/// model_type of a llama with ALiBi: no other program has such a model, and none must read its weights as if they were
/// trained with rotary positions.
inline constexpr std::string_view kAlibiModelType = "litespark_alibi_llama";

/// In what cosines and sines of the rotary angles were kept in training; absent: fp32. Other programs have no such key
/// and round them to whatever they compute in.
inline constexpr const char* kRopePrecisionKey = "litespark_rope_precision";

/// Families llama, mistral, qwen2, qwen3. Both spellings of rope (flat rope_theta and rope_scaling, or
/// rope_parameters) and of the dtype (dtype, torch_dtype) are read; contradictions are errors.
///
/// Absent fields take the default of transformers' configuration class, as that library would: rope_theta 10000,
/// rms_norm_eps 1e-6, initializer_range 0.02, max_position_embeddings 2048 (llama), 131072 (mistral), 32768 (qwen),
/// num_key_value_heads = num_attention_heads (llama only), head_dim = hidden_size / num_attention_heads (qwen3: 128),
/// sliding_window 4096 (mistral; qwen with use_sliding_window), untied heads, no llama/qwen3 biases. Token ids are an
/// exception: an absent id is unknown, not 1 or 2. The sizes vocab_size, hidden_size, intermediate_size,
/// num_hidden_layers, num_attention_heads and every field of a rope scaling have no default.
///
/// Throws IoError, DataError (not JSON, or a key that names code: auto_map and its kin are refused, never ignored) or
/// ConfigError naming the field (missing, wrong type, out of range, a family or feature that is not supported).
ModelConfig read_hf_config(const std::filesystem::path& config_json);

/// The same from text; `where` stands in for the file name in messages.
ModelConfig parse_hf_config(std::string_view text, std::string_view where);

/// The spelling that most readers accept: flat rope_theta and rope_scaling, dtype beside torch_dtype. `folder_dtype`
/// (f32 or bf16) is what the tensors are written in. ALiBi has kAlibiModelType and no rope keys. ConfigError when the
/// family cannot express the config.
std::string hf_config_json(const ModelConfig& config, DType folder_dtype);

/// generation_config.json with the token ids that the config names; empty when it names none.
std::string hf_generation_config_json(const ModelConfig& config);

}  // namespace litespark
