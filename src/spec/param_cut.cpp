// SPDX-License-Identifier: Apache-2.0
#include "spec/param_cut.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"

namespace litespark {
namespace {

int64_t share_of(int64_t size, int64_t ranks) {
  return size % ranks == 0 ? size / ranks : round_up(ceil_div(size, ranks), kCutAlignment);
}

/// What a rank has of `size` things that were shared out in order.
ParamCut::Rows share_rows(int64_t size, const TensorPlace& place) {
  const int64_t share = share_of(size, place.ranks);
  const int64_t first = std::min(size, place.rank * share);
  return {.from = first, .to = 0, .count = std::min(share, size - first)};
}

class Cutter {
 public:
  Cutter(const ModelConfig& config, const TensorPlace& place)
      : config_(config), rank_config_(cut_model(config, place.ranks)), place_(place) {}

  void cut(ParamSpec& spec) const {
    ParamCut cut{.whole = spec.shape, .rows = {}, .first_column = 0, .num_columns = columns_of(spec), .num_counted = 0};
    switch (spec.role) {
      case ParamRole::kEmbedding:
      case ParamRole::kHead:
        cut_rows(spec, cut, {share_rows(config_.vocab_size, place_)}, rank_config_.vocab_size);
        break;
      case ParamRole::kQkv:
      case ParamRole::kQkvBias: cut_rows(spec, cut, qkv_rows(), rank_config_.qkv_features()); break;
      case ParamRole::kGateUp:
      case ParamRole::kGateUpBias: cut_rows(spec, cut, gate_up_rows(), 2 * rank_config_.intermediate_size); break;
      case ParamRole::kOutput:
        cut_columns(
            spec, cut,
            {.from = place_.rank * rank_config_.attention_features(), .count = rank_config_.attention_features()},
            rank_config_.attention_features());
        break;
      case ParamRole::kDown:
        cut_columns(spec, cut, share_rows(config_.intermediate_size, place_), rank_config_.intermediate_size);
        break;
      default: keep_all(spec, cut); break;
    }
    spec.cut = std::move(cut);
    spec.parts.clear();
  }

 private:
  static int64_t columns_of(const ParamSpec& spec) { return spec.shape.rank() == 2 ? spec.shape[1] : 1; }

  void cut_rows(ParamSpec& spec, ParamCut& cut, std::vector<ParamCut::Rows> rows, int64_t num_rows) const {
    cut.rows = std::move(rows);
    spec.shape = spec.shape.rank() == 2 ? Shape{num_rows, spec.shape[1]} : Shape{num_rows};
    cut.num_counted = spec.shape.num_elements();
    const bool is_qkv = spec.role == ParamRole::kQkv || spec.role == ParamRole::kQkvBias;
    // Of key and value heads that several ranks hold, the first one's copy counts; they are the last rows.
    if (is_qkv && place_.rank % copies_of_kv_heads(config_, place_.ranks) != 0) {
      cut.num_counted = rank_config_.attention_features() * cut.num_columns;
    }
  }

  static void cut_columns(ParamSpec& spec, ParamCut& cut, const ParamCut::Rows& columns, int64_t num_columns) {
    cut.rows = {{.from = 0, .to = 0, .count = spec.shape[0]}};
    cut.first_column = columns.from;
    cut.num_columns = columns.count;
    spec.shape = Shape{spec.shape[0], num_columns};
    cut.num_counted = spec.shape.num_elements();
  }

  void keep_all(const ParamSpec& spec, ParamCut& cut) const {
    cut.rows = {{.from = 0, .to = 0, .count = spec.shape[0]}};
    cut.is_replicated = true;
    cut.num_counted = place_.rank == 0 ? spec.shape.num_elements() : 0;
  }

  std::vector<ParamCut::Rows> qkv_rows() const {
    const int64_t dim = config_.head_dim;
    const int64_t heads = rank_config_.num_attention_heads;
    const int64_t kv_heads = rank_config_.num_key_value_heads;
    const int64_t first_kv = place_.rank / copies_of_kv_heads(config_, place_.ranks) * kv_heads;
    const int64_t keys = config_.num_attention_heads;
    const int64_t values = keys + config_.num_key_value_heads;
    return {{.from = place_.rank * heads * dim, .to = 0, .count = heads * dim},
            {.from = (keys + first_kv) * dim, .to = heads * dim, .count = kv_heads * dim},
            {.from = (values + first_kv) * dim, .to = (heads + kv_heads) * dim, .count = kv_heads * dim}};
  }

  std::vector<ParamCut::Rows> gate_up_rows() const {
    const ParamCut::Rows gate = share_rows(config_.intermediate_size, place_);
    return {gate,
            {.from = config_.intermediate_size + gate.from, .to = rank_config_.intermediate_size, .count = gate.count}};
  }

  const ModelConfig& config_;
  ModelConfig rank_config_;
  TensorPlace place_;
};

}  // namespace

void require_cut(const ModelConfig& config, int64_t ranks) {
  if (config.num_attention_heads % ranks != 0) {
    throw ConfigError("cluster.tp", "does not divide the model's attention heads", ranks,
                      "a divisor of num_attention_heads = " + std::to_string(config.num_attention_heads));
  }
  const int64_t kv_heads = config.num_key_value_heads;
  if (kv_heads % ranks != 0 && ranks % kv_heads != 0) {
    throw ConfigError("cluster.tp", "neither divides the model's key and value heads nor is a multiple of them", ranks,
                      "a divisor or a multiple of num_key_value_heads = " + std::to_string(kv_heads));
  }
}

int64_t copies_of_kv_heads(const ModelConfig& config, int64_t ranks) {
  return std::max<int64_t>(1, ranks / config.num_key_value_heads);
}

ModelConfig cut_model(const ModelConfig& config, int64_t ranks) {
  if (ranks == 1) return config;
  ModelConfig cut = config;
  cut.num_attention_heads = config.num_attention_heads / ranks;
  cut.num_key_value_heads = std::max<int64_t>(1, config.num_key_value_heads / ranks);
  cut.intermediate_size = share_of(config.intermediate_size, ranks);
  cut.vocab_size = share_of(config.vocab_size, ranks);
  return cut;
}

HeldVocabulary held_vocabulary(const ModelConfig& config, const TensorPlace& place) {
  const ParamCut::Rows rows = share_rows(config.vocab_size, place);
  return {.first = rows.from, .count = rows.count};
}

ParamTable cut_param_table(const ParamTable& whole, const ModelConfig& config, const TensorPlace& place) {
  if (place.ranks == 1) return whole;
  ParamTable table = whole;
  const Cutter cutter(config, place);
  for (ParamSpec& spec : table.params) cutter.cut(spec);
  table.assign_places();
  return table;
}

void cut_values(const ParamSpec& spec, std::span<const float> whole, std::span<float> stored) {
  std::fill(stored.begin(), stored.end(), 0.0f);
  for_cut_stretches(spec, 0, std::ssize(stored), [&](int64_t first, int64_t whole_first, int64_t count) {
    std::copy_n(whole.begin() + whole_first, count, stored.begin() + first);
  });
}

void join_values(const ParamSpec& spec, std::span<const float> stored, std::span<float> whole) {
  for_cut_stretches(spec, 0, std::ssize(stored), [&](int64_t first, int64_t whole_first, int64_t count) {
    std::copy_n(stored.begin() + first, count, whole.begin() + whole_first);
  });
}

}  // namespace litespark
