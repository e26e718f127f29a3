// SPDX-License-Identifier: Apache-2.0
#include "plan/transformer.h"

#include <algorithm>

#include "core/checked.h"
#include "plan/row_text.h"

namespace litespark {
namespace {

double matrices(const TransformerShape& shape, double ffn) {
  return (shape.gated ? 3.0 : 2.0) * real(shape.hidden) * ffn;
}

}  // namespace

double TransformerShape::query_features() const {
  return real(heads) * (latent ? real(latent->plain + latent->rotary) : real(head_dim));
}

double TransformerShape::kv_features() const {
  return latent ? query_features() : real(kv_heads) * real(head_dim);
}

double TransformerShape::score_features() const {
  return latent ? real(heads) * (real(latent->plain + latent->rotary) + real(latent->value)) / 2 : query_features();
}

double TransformerShape::attention_parameters() const {
  const double c = real(hidden);
  if (!latent) return c * (query_features() + 2 * kv_features()) + query_features() * c;
  const LatentShape& l = *latent;
  const double queries = l.query_rank > 0 ? real(l.query_rank) * (c + query_features()) : c * query_features();
  const double keys = c * real(l.kv_rank + l.rotary) + real(l.kv_rank) * real(heads) * real(l.plain + l.value);
  return queries + keys + real(heads) * real(l.value) * c;
}

double TransformerShape::dense_parameters() const {
  return matrices(*this, real(experts ? experts->dense_ffn : ffn));
}

double TransformerShape::expert_parameters() const {
  return experts ? matrices(*this, real(experts->ffn)) : 0;
}

double TransformerShape::shared_parameters() const {
  return experts ? real(experts->shared) * expert_parameters() + real(hidden) * real(experts->experts) : 0;
}

double TransformerShape::common_parameters(bool has_experts) const {
  return attention_parameters() + (has_experts ? shared_parameters() : dense_parameters());
}

double TransformerShape::embedding_parameters() const {
  return real(vocab) * real(hidden);
}

double TransformerShape::parameters() const {
  const double with = real(expert_layers());
  const double routed = experts ? real(experts->experts) * expert_parameters() : 0;
  return with * (common_parameters(true) + routed) + (real(layers) - with) * common_parameters(false) +
         (tied ? 1 : 2) * embedding_parameters();
}

double TransformerShape::active_parameters() const {
  const double with = real(expert_layers());
  const double routed = experts ? real(experts->active) * expert_parameters() : 0;
  return with * (common_parameters(true) + routed) + (real(layers) - with) * common_parameters(false) +
         embedding_parameters();
}

double TransformerShape::training_flops_per_token(double seq_len) const {
  return 6 * active_parameters() + 6 * real(layers) * score_features() * seq_len;
}

TransformerShape shape_of(const ModelConfig& config) {
  return {.layers = config.num_hidden_layers,
          .hidden = config.hidden_size,
          .heads = config.num_attention_heads,
          .kv_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .ffn = config.intermediate_size,
          .vocab = config.vocab_size,
          .gated = true,
          .tied = config.tie_word_embeddings,
          .experts = {},
          .latent = {}};
}

void complete_from_name(TransformerShape& shape, std::string_view model) {
  const std::string name = lower_text(model);
  const auto has = [&](std::initializer_list<std::string_view> parts) { return contains_any_text(name, parts); };
  if (has({"deepseek-v2-lite", "deepseekv2-lite"})) {
    shape.experts = {.experts = 64, .active = 6, .shared = 2, .ffn = 1408, .dense_layers = 1, .dense_ffn = 10944};
    shape.latent = {.query_rank = 0, .kv_rank = 512, .plain = 128, .rotary = 64, .value = 128};
  } else if (has({"deepseek-v2", "deepseekv2"})) {
    shape.experts = {.experts = 160, .active = 6, .shared = 2, .ffn = 1536, .dense_layers = 1, .dense_ffn = 12288};
    shape.latent = {.query_rank = 1536, .kv_rank = 512, .plain = 128, .rotary = 64, .value = 128};
  } else if (has({"deepseek-v3", "deepseekv3"})) {
    shape.experts = {.experts = 256, .active = 8, .shared = 1, .ffn = 2048, .dense_layers = 3, .dense_ffn = 18432};
    shape.latent = {.query_rank = 1536, .kv_rank = 512, .plain = 128, .rotary = 64, .value = 128};
  } else if (has({"kimi-k2", "kimi_k2"})) {
    shape.experts = {.experts = 384, .active = 8, .shared = 1, .ffn = 2048, .dense_layers = 1, .dense_ffn = 18432};
    shape.latent = {.query_rank = 1536, .kv_rank = 512, .plain = 128, .rotary = 64, .value = 128};
  } else if (has({"deepseek-moe", "deepseekmoe", "deepseek-16b"})) {
    shape.experts = {.experts = 64, .active = 6, .shared = 2, .ffn = 1408, .dense_layers = 1, .dense_ffn = 10944};
  } else if (has({"mixtral", "grok"})) {
    shape.experts = {.experts = 8, .active = 2, .ffn = shape.ffn};
  } else if (has({"gpt-oss", "gpt_oss"})) {
    shape.experts = {.experts = has({"20b"}) ? 32 : 128, .active = 4, .ffn = shape.ffn};
    shape.head_dim = 64;
  } else if (has({"llama4", "llama-4"})) {
    shape.experts = {.experts = has({"maverick"}) ? 128 : 16, .active = 1, .shared = 1, .ffn = shape.ffn};
  } else if (has({"dbrx"})) {
    shape.experts = {.experts = 16, .active = 4, .ffn = shape.ffn};
  } else if (has({"qwen3-30b", "qwen3_30b", "qwen3-235b", "qwen3_235b"})) {
    shape.experts = {.experts = 128, .active = 8, .ffn = shape.ffn};
  }
  // Wider heads than hidden / heads.
  if (has({"qwen3", "mistral-nemo", "mistral_nemo"})) shape.head_dim = 128;
  if (!shape.experts) return;
  if (shape.ffn > 0 && !has({"mixtral", "grok", "dbrx"})) shape.experts->ffn = shape.ffn;
  // Cut-down copies keep one dense layer: with all three a copy of four would hardly have experts.
  if (shape.layers < 8) shape.experts->dense_layers = std::min<int64_t>(shape.experts->dense_layers, 1);
}

}  // namespace litespark
