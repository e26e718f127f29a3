// SPDX-License-Identifier: Apache-2.0
// The [model] section: config.json's keys with help and range, and the model that they describe when it starts from
// scratch.
#include <string>
#include <utility>

#include "core/error.h"
#include "spec/run_config.h"

namespace litespark {
namespace {

void add_sizes(ModelSection& model, Fields& fields) {
  fields.add({.path = "vocab_size",
              .value = &model.vocab_size,
              .help = "V, rows of the embedding. Needed for scratch, except with data.source = \"text\" (256).",
              .unit = "tokens",
              .range = at_least(1)});
  fields.add({.path = "hidden_size",
              .value = &model.hidden_size,
              .help = "C, width of the residual stream. Needed for scratch.",
              .range = at_least(1)});
  fields.add({.path = "intermediate_size",
              .value = &model.intermediate_size,
              .help = "F, width of the feed-forward layer. Needed for scratch.",
              .range = at_least(1)});
  fields.add({.path = "num_hidden_layers",
              .value = &model.num_hidden_layers,
              .help = "L, number of blocks. Needed for scratch.",
              .range = between(1, 10000)});
  fields.add({.path = "num_attention_heads",
              .value = &model.num_attention_heads,
              .help = "H, query heads. Needed for scratch.",
              .range = between(1, 65536)});
  fields.add({.path = "num_key_value_heads",
              .value = &model.num_key_value_heads,
              .help = "K, key and value heads; divides num_attention_heads. Unset: num_attention_heads.",
              .range = between(1, 65536)});
  fields.add({.path = "head_dim",
              .value = &model.head_dim,
              .help = "D, width of a head, even. Unset: hidden_size / num_attention_heads.",
              .range = between(2, 1024)});
}

void add_details(ModelSection& model, Fields& fields) {
  fields.add({.path = "max_position_embeddings",
              .value = &model.max_position_embeddings,
              .help = "Longest context the model is meant for. Unset: data.seq_len.",
              .unit = "tokens",
              .range = at_least(1)});
  fields.add({.path = "rms_norm_eps",
              .value = &model.rms_norm_eps,
              .help = "Added under the root of RMSNorm. Unset: 1e-5.",
              .range = between(1e-30, 1)});
  fields.add(
      {.path = "initializer_range",
       .value = &model.initializer_range,
       .help = "Standard deviation of fresh weights; o_proj and down_proj are divided by sqrt(2 L). Unset: 0.02.",
       .range = between(0, 10)});
  fields.add({.path = "positions",
              .value = &model.positions,
              .help = "How a token's place enters: rotary angles, or attention that falls with distance (ALiBi). Other "
                      "programs' config.json has no word for ALiBi, so such a model cannot be exported.",
              .choices = {"rope", "alibi"}});
  fields.add({.path = "rope_theta",
              .value = &model.rope_theta,
              .help = "Base of the rotary frequencies. Unset: 10000.",
              .range = between(kLeastRope, kMostRope)});
  fields.add({.path = "tie_word_embeddings",
              .value = &model.tie_word_embeddings,
              .help = "The head uses the embedding's weights. Unset: false."});
  fields.add({.path = "attention_bias",
              .value = &model.attention_bias,
              .help = "Biases on q, k, v and o (llama, qwen3). Unset: false."});
  fields.add(
      {.path = "mlp_bias", .value = &model.mlp_bias, .help = "Biases on gate, up and down (llama). Unset: false."});
  fields.add({.path = "sliding_window",
              .value = &model.sliding_window,
              .help = "A token sees this many tokens, itself included (mistral). Unset: all before it.",
              .unit = "tokens",
              .range = at_least(1)});
  fields.add({.path = "bos_token_id",
              .value = &model.bos_token_id,
              .help = "Id that opens a document. Unset: none.",
              .range = at_least(0)});
  fields.add({.path = "eos_token_id",
              .value = &model.eos_token_id,
              .help = "Id that ends a document. Unset: none.",
              .range = at_least(0)});
  fields.add({.path = "pad_token_id",
              .value = &model.pad_token_id,
              .help = "Id of padding. Unset: none.",
              .range = at_least(0)});
}

int64_t required(const std::optional<int64_t>& value, const char* key) {
  if (value) return *value;
  throw ConfigError(std::string("model.") + key, "is needed with model.init = \"scratch\"", "nothing", "a number",
                    "or set model.init = \"folder\" and model.path");
}

RopeConfig rope_of(const ModelSection& model) {
  const RopeScalingSection& scaling = model.rope_scaling;
  RopeConfig rope{.theta = model.rope_theta.value_or(RopeConfig{}.theta), .scaling = scaling.rope_type};
  if (scaling.rope_type == RopeScaling::kNone) return rope;
  if (!scaling.factor) {
    throw ConfigError("model.rope_scaling.factor", "is needed with this rope_type", "nothing", "for example 8");
  }
  rope.factor = *scaling.factor;
  if (scaling.rope_type != RopeScaling::kLlama3) return rope;
  if (!scaling.original_max_position_embeddings) {
    throw ConfigError("model.rope_scaling.original_max_position_embeddings", "is needed with rope_type = \"llama3\"",
                      "nothing", "for example 8192");
  }
  rope.low_freq_factor = scaling.low_freq_factor.value_or(rope.low_freq_factor);
  rope.high_freq_factor = scaling.high_freq_factor.value_or(rope.high_freq_factor);
  rope.original_max_position_embeddings = *scaling.original_max_position_embeddings;
  return rope;
}

void refuse_foreign_keys(const ModelSection& model) {
  const ModelFamily family = model.model_type;
  const std::string name = family_name(family);
  const auto refuse = [&](const char* key, const char* families) {
    throw ConfigError(std::string("model.") + key, "is not a setting of this model_type", name, families);
  };
  if (model.attention_bias && family != ModelFamily::kLlama && family != ModelFamily::kQwen3) {
    refuse("attention_bias", "llama or qwen3");
  }
  if (model.mlp_bias && family != ModelFamily::kLlama) refuse("mlp_bias", "llama");
  if (model.sliding_window && family != ModelFamily::kMistral) refuse("sliding_window", "mistral");
  if (model.positions == Positions::kRope) return;
  if (family != ModelFamily::kLlama) refuse("positions", "llama");
  if (model.rope_theta || model.rope_scaling.rope_type != RopeScaling::kNone) {
    throw ConfigError(model.rope_theta ? "model.rope_theta" : "model.rope_scaling.rope_type",
                      "rotates nothing beside model.positions = \"alibi\"", "a setting", "none");
  }
}

}  // namespace

void RopeScalingSection::visit(Fields& fields) {
  fields.add({.path = "rope_type",
              .value = &rope_type,
              .help = "How rotary frequencies are stretched for long contexts.",
              .choices = {"default", "linear", "llama3"}});
  fields.add({.path = "factor",
              .value = &factor,
              .help = "Stretch of the longest wavelengths; needed with linear and llama3.",
              .range = between(kLeastRope, kMostRope)});
  fields.add({.path = "low_freq_factor",
              .value = &low_freq_factor,
              .help = "llama3: wavelengths above original / low_freq_factor are stretched in full.",
              .range = between(kLeastRope, kMostRope)});
  fields.add({.path = "high_freq_factor",
              .value = &high_freq_factor,
              .help = "llama3: wavelengths below original / high_freq_factor are kept.",
              .range = between(kLeastRope, kMostRope)});
  fields.add({.path = "original_max_position_embeddings",
              .value = &original_max_position_embeddings,
              .help = "llama3: context length before stretching.",
              .unit = "tokens",
              .range = at_least(1)});
}

void ModelSection::visit(Fields& fields) {
  fields.add({.path = "init",
              .value = &init,
              .help = "Where weights come from: random from the seed (the shape keys below), or a Hugging Face folder.",
              .choices = {"scratch", "folder"}});
  fields.add({.path = "path", .value = &path, .help = "The Hugging Face folder, for init = \"folder\"."});
  fields.add({.path = "model_type",
              .value = &model_type,
              .help = "Family: qwen2 has biases on q, k and v; qwen3 norms query and key heads; mistral may window.",
              .choices = {"llama", "mistral", "qwen2", "qwen3"}});
  add_sizes(*this, fields);
  add_details(*this, fields);
  fields.section("rope_scaling", "Stretched rotary frequencies, as in config.json.", rope_scaling);
}

ModelConfig scratch_model_config(const RunConfig& config) {
  const ModelSection& model = config.model;
  refuse_foreign_keys(model);
  ModelConfig shape;
  shape.family = model.model_type;
  const bool is_byte_text = config.data.source == DataSource::kText && !model.vocab_size;
  shape.vocab_size = is_byte_text ? 256 : required(model.vocab_size, "vocab_size");
  shape.hidden_size = required(model.hidden_size, "hidden_size");
  shape.intermediate_size = required(model.intermediate_size, "intermediate_size");
  shape.num_hidden_layers = required(model.num_hidden_layers, "num_hidden_layers");
  shape.num_attention_heads = required(model.num_attention_heads, "num_attention_heads");
  shape.num_key_value_heads = model.num_key_value_heads.value_or(shape.num_attention_heads);
  if (!model.head_dim && shape.hidden_size % shape.num_attention_heads != 0) {
    throw ConfigError("model.num_attention_heads", "does not divide model.hidden_size", shape.num_attention_heads,
                      "a divisor of " + std::to_string(shape.hidden_size), "or set model.head_dim");
  }
  shape.head_dim = model.head_dim.value_or(shape.hidden_size / shape.num_attention_heads);
  shape.max_position_embeddings = model.max_position_embeddings.value_or(config.data.seq_len);
  shape.rms_norm_eps = model.rms_norm_eps.value_or(shape.rms_norm_eps);
  shape.initializer_range = model.initializer_range.value_or(shape.initializer_range);
  shape.positions = model.positions;
  shape.rope = rope_of(model);
  shape.rope.precision = config.precision.rope;
  shape.tie_word_embeddings = model.tie_word_embeddings.value_or(false);
  shape.has_qkv_bias = model.model_type == ModelFamily::kQwen2 || model.attention_bias.value_or(false);
  shape.has_output_bias = model.attention_bias.value_or(false);
  shape.has_mlp_bias = model.mlp_bias.value_or(false);
  shape.has_qk_norm = model.model_type == ModelFamily::kQwen3;
  shape.sliding_window = model.sliding_window.value_or(0);
  for (const auto& [id, list] :
       {std::pair{model.bos_token_id, &shape.bos_token_ids}, std::pair{model.eos_token_id, &shape.eos_token_ids}}) {
    if (id) list->push_back(*id);
  }
  shape.pad_token_id = model.pad_token_id.value_or(-1);
  for (const auto& [key, id] : {std::pair{"bos_token_id", model.bos_token_id},
                                {"eos_token_id", model.eos_token_id},
                                {"pad_token_id", model.pad_token_id}}) {
    if (id && *id >= shape.vocab_size) {
      throw ConfigError(std::string("model.") + key, "is not in the vocabulary", *id,
                        "less than model.vocab_size = " + std::to_string(shape.vocab_size));
    }
  }
  shape.folder_dtype = config.precision.compute;
  shape.validate({.section = "model."});
  return shape;
}

}  // namespace litespark
