// SPDX-License-Identifier: Apache-2.0
#include "spec/param_table.h"

#include <cmath>

#include "core/checked.h"

namespace litespark {
namespace {

struct TableBuilder {
  const ModelConfig& config;
  ParamTable table;

  /// Hugging Face writes "model." before everything but the head; base-model folders omit it.
  static ParamPart part(const std::string& name, int64_t first_row, Shape shape) {
    return {
        .write_name = "model." + name, .read_names = {"model." + name, name}, .first_row = first_row, .shape = shape};
  }

  void add(ParamRole role, int64_t layer, std::string name, Shape shape, std::vector<ParamPart> parts, ParamInit init,
           double init_std = 0.0) {
    table.params.push_back({.name = std::move(name),
                            .role = role,
                            .layer = layer,
                            .shape = shape,
                            .parts = std::move(parts),
                            .init = init,
                            .init_std = init_std,
                            .is_decayed = shape.rank() >= 2});
  }

  void add_single(ParamRole role, int64_t layer, const std::string& our_name, const std::string& hf_name, Shape shape,
                  ParamInit init, double init_std = 0.0) {
    add(role, layer, our_name, shape, {part(hf_name, 0, shape)}, init, init_std);
  }

  void add_block(int64_t layer) {
    const int64_t hidden = config.hidden_size;
    const int64_t ffn = config.intermediate_size;
    const int64_t q_rows = config.num_attention_heads * config.head_dim;
    const int64_t kv_rows = config.num_key_value_heads * config.head_dim;
    const double std = config.initializer_range;
    // GPT-2's rule: projections back into the residual stream start smaller, so that its variance does not grow with L.
    const double residual_std = std / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
    const std::string ours = "layers." + std::to_string(layer) + ".";
    const std::string attention = ours + "self_attn.";
    const std::string mlp = ours + "mlp.";

    add_single(ParamRole::kAttentionNorm, layer, ours + "attention_norm", ours + "input_layernorm.weight", {hidden},
               ParamInit::kOnes);
    add(ParamRole::kQkv, layer, ours + "qkv", {q_rows + 2 * kv_rows, hidden},
        {part(attention + "q_proj.weight", 0, {q_rows, hidden}),
         part(attention + "k_proj.weight", q_rows, {kv_rows, hidden}),
         part(attention + "v_proj.weight", q_rows + kv_rows, {kv_rows, hidden})},
        ParamInit::kNormal, std);
    if (config.has_qkv_bias) {
      add(ParamRole::kQkvBias, layer, ours + "qkv_bias", {q_rows + 2 * kv_rows},
          {part(attention + "q_proj.bias", 0, {q_rows}), part(attention + "k_proj.bias", q_rows, {kv_rows}),
           part(attention + "v_proj.bias", q_rows + kv_rows, {kv_rows})},
          ParamInit::kZeros);
    }
    if (config.has_qk_norm) {
      add_single(ParamRole::kQueryNorm, layer, ours + "query_norm", attention + "q_norm.weight", {config.head_dim},
                 ParamInit::kOnes);
      add_single(ParamRole::kKeyNorm, layer, ours + "key_norm", attention + "k_norm.weight", {config.head_dim},
                 ParamInit::kOnes);
    }
    add_single(ParamRole::kOutput, layer, ours + "output", attention + "o_proj.weight", {hidden, q_rows},
               ParamInit::kNormal, residual_std);
    if (config.has_output_bias) {
      add_single(ParamRole::kOutputBias, layer, ours + "output_bias", attention + "o_proj.bias", {hidden},
                 ParamInit::kZeros);
    }
    add_single(ParamRole::kMlpNorm, layer, ours + "mlp_norm", ours + "post_attention_layernorm.weight", {hidden},
               ParamInit::kOnes);
    add(ParamRole::kGateUp, layer, ours + "gate_up", {2 * ffn, hidden},
        {part(mlp + "gate_proj.weight", 0, {ffn, hidden}), part(mlp + "up_proj.weight", ffn, {ffn, hidden})},
        ParamInit::kNormal, std);
    if (config.has_mlp_bias) {
      add(ParamRole::kGateUpBias, layer, ours + "gate_up_bias", {2 * ffn},
          {part(mlp + "gate_proj.bias", 0, {ffn}), part(mlp + "up_proj.bias", ffn, {ffn})}, ParamInit::kZeros);
    }
    add_single(ParamRole::kDown, layer, ours + "down", mlp + "down_proj.weight", {hidden, ffn}, ParamInit::kNormal,
               residual_std);
    if (config.has_mlp_bias) {
      add_single(ParamRole::kDownBias, layer, ours + "down_bias", mlp + "down_proj.bias", {hidden}, ParamInit::kZeros);
    }
  }
};

}  // namespace

std::optional<int64_t> ParamTable::find(ParamRole role, int64_t layer) const {
  for (size_t index = 0; index < params.size(); ++index) {
    if (params[index].role == role && params[index].layer == layer) return static_cast<int64_t>(index);
  }
  return std::nullopt;
}

void ParamTable::assign_places() {
  flat_size = 0;
  num_parameters = 0;
  for (auto param = params.rbegin(); param != params.rend(); ++param) {
    param->flat_offset = flat_size;
    flat_size += round_up(param->shape.num_elements(), kFlatAlignment);
    num_parameters += param->shape.num_elements();
  }
}

ParamTable make_param_table(const ModelConfig& config) {
  config.validate();
  TableBuilder builder{.config = config, .table = {}};
  const Shape vocabulary{config.vocab_size, config.hidden_size};
  builder.add_single(ParamRole::kEmbedding, -1, "embedding", "embed_tokens.weight", vocabulary, ParamInit::kNormal,
                     config.initializer_range);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) builder.add_block(layer);
  builder.add_single(ParamRole::kFinalNorm, -1, "final_norm", "norm.weight", {config.hidden_size}, ParamInit::kOnes);
  if (!config.tie_word_embeddings) {
    builder.add(
        ParamRole::kHead, -1, "head", vocabulary,
        {{.write_name = "lm_head.weight", .read_names = {"lm_head.weight"}, .first_row = 0, .shape = vocabulary}},
        ParamInit::kNormal, config.initializer_range);
  }
  builder.table.assign_places();
  return std::move(builder.table);
}

}  // namespace litespark
