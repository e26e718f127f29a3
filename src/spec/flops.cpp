// SPDX-License-Identifier: Apache-2.0
#include "spec/flops.h"

#include "core/text_table.h"

namespace litespark {

int64_t matmul_parameters(const ModelConfig& config) {
  const int64_t attention =
      config.hidden_size * config.qkv_features() + config.attention_features() * config.hidden_size;
  const int64_t mlp = 3 * config.hidden_size * config.intermediate_size;
  return config.num_hidden_layers * (attention + mlp) + config.vocab_size * config.hidden_size;
}

double training_flops_per_token(const ModelConfig& config, int64_t seq_len) {
  return 6.0 * static_cast<double>(matmul_parameters(config)) + 6.0 * static_cast<double>(config.num_hidden_layers) *
                                                                    static_cast<double>(config.attention_features()) *
                                                                    static_cast<double>(seq_len);
}

std::string training_flops_text(const ModelConfig& config, int64_t seq_len) {
  return "6 x " + count_text(matmul_parameters(config)) + " matmul parameters + 6 L H D T (6 x " +
         std::to_string(config.num_hidden_layers) + " x " + std::to_string(config.num_attention_heads) + " x " +
         std::to_string(config.head_dim) + " x " + std::to_string(seq_len) + ")";
}

}  // namespace litespark
