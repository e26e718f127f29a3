// SPDX-License-Identifier: Apache-2.0
// The shape of a decoder as far as its cost depends on it, beyond what our trainer builds: plain and gated feed-forward
// layers, grouped and latent attention, experts. Counts are doubles: estimates must not wrap.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "spec/model_config.h"

namespace litespark {

/// Experts in place of the feed-forward layer, but for the first `dense_layers`.
struct ExpertShape {
  int64_t experts = 0;
  int64_t active = 0;  ///< that a token visits
  int64_t shared = 0;  ///< that every token visits
  int64_t ffn = 0;     ///< width of one
  int64_t dense_layers = 0;
  int64_t dense_ffn = 0;
};

/// Keys and values from a small common vector (DeepSeek-V2, arXiv:2405.04434, section 2.1).
struct LatentShape {
  int64_t query_rank = 0;
  int64_t kv_rank = 0;
  int64_t plain = 0;   ///< of a query or key head, without position
  int64_t rotary = 0;  ///< of a query or key head, with position
  int64_t value = 0;   ///< of a value head
};

struct TransformerShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn = 0;
  int64_t vocab = 0;
  bool gated = true;
  bool tied = false;
  std::optional<ExpertShape> experts;
  std::optional<LatentShape> latent;

  double query_features() const;  ///< H D
  double kv_features() const;     ///< K D: of keys, and again of values
  /// What scores and values multiply with, each: H D; with latent heads the mean of query and value width.
  double score_features() const;
  double attention_parameters() const;  ///< of a layer
  double dense_parameters() const;      ///< feed-forward of a layer without experts
  double expert_parameters() const;     ///< one expert
  double shared_parameters() const;     ///< shared experts and router of a layer with experts
  int64_t expert_layers() const { return experts ? layers - experts->dense_layers : 0; }
  /// Of a layer: everything but the routed experts.
  double common_parameters(bool has_experts) const;
  double embedding_parameters() const;  ///< V C
  /// All matrices, the head once more unless it is tied.
  double parameters() const;
  /// That take part in products for one token, with the head.
  double active_parameters() const;
  /// 6 x active parameters + 6 L H D T: the causal half of attention, never recomputation.
  double training_flops_per_token(double seq_len) const;
};

TransformerShape shape_of(const ModelConfig& config);

/// What the name of a published model adds to its sizes: experts, latent heads. Leaves other shapes alone.
void complete_from_name(TransformerShape& shape, std::string_view model);

}  // namespace litespark
