// SPDX-License-Identifier: Apache-2.0
#include "spec/stage_layers.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "core/checked.h"
#include "core/error.h"
#include "spec/flops.h"

namespace litespark {
namespace {

/// FLOPs of the head beside those of one layer.
double head_in_layers(const ModelConfig& config, int64_t seq_len) {
  const double head = 6 * real(config.vocab_size) * real(config.hidden_size);
  const double all = training_flops_per_token(config, seq_len);
  return head / ((all - head) / real(config.num_hidden_layers));
}

/// Layers of the last part for which the slowest part is fastest.
int64_t layers_of_last(const ModelConfig& config, int64_t parts, int64_t seq_len) {
  const double head = head_in_layers(config, seq_len);
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t last = 1; last + parts - 1 <= config.num_hidden_layers; ++last) {
    const int64_t others = ceil_div(config.num_hidden_layers - last, parts - 1);
    const double slowest = std::max(real(others), real(last) + head);
    if (slowest > least) continue;
    least = slowest;
    best = last;
  }
  return best;
}

std::vector<StageLayers> parts_of(const std::vector<int64_t>& counts) {
  std::vector<StageLayers> parts;
  for (const int64_t count : counts) parts.push_back({.first = parts.empty() ? 0 : parts.back().end(), .count = count});
  return parts;
}

std::string list_text(const std::vector<int64_t>& counts) {
  std::string text;
  for (const int64_t count : counts) text += (text.empty() ? "[" : ", ") + std::to_string(count);
  return text + "]";
}

}  // namespace

void require_parts(const std::vector<int64_t>& given, int64_t stages, int64_t chunks) {
  if (given.empty()) return;
  if (std::ssize(given) != stages * chunks) {
    throw ConfigError("cluster.pp_layers", "is not a number of layers for each range of each stage",
                      std::to_string(given.size()) + " numbers",
                      "cluster.pp x cluster.vpp = " + std::to_string(stages * chunks) + " of them");
  }
  if (*std::min_element(given.begin(), given.end()) < 1) {
    throw ConfigError("cluster.pp_layers", "leaves a stage without a layer", list_text(given), "1 or more for each");
  }
}

void require_layers(const ModelConfig& config, int64_t stages, int64_t chunks, const std::vector<int64_t>& given) {
  require_parts(given, stages, chunks);
  if (!given.empty()) {
    std::optional<int64_t> sum = 0;
    for (const int64_t count : given) sum = sum ? checked_add(*sum, count) : std::nullopt;
    if (sum == config.num_hidden_layers) return;
    throw ConfigError("cluster.pp_layers", "does not add up to the layers of the model",
                      list_text(given) + (sum ? ", together " + std::to_string(*sum) : ""),
                      "num_hidden_layers = " + std::to_string(config.num_hidden_layers));
  }
  if (stages * chunks <= config.num_hidden_layers) return;
  const std::string expected = "at most num_hidden_layers = " + std::to_string(config.num_hidden_layers);
  if (chunks == 1) throw ConfigError("cluster.pp", "leaves pipeline stages without a layer", stages, expected);
  throw ConfigError("cluster.vpp", "leaves ranges of pipeline stages without a layer",
                    std::to_string(stages) + " x " + std::to_string(chunks), expected);
}

std::vector<StageLayers> balanced_layers(const ModelConfig& config, int64_t parts, int64_t seq_len) {
  if (parts == 1) return {{.first = 0, .count = config.num_hidden_layers}};
  const int64_t last = layers_of_last(config, parts, seq_len);
  const int64_t others = config.num_hidden_layers - last;
  std::vector<StageLayers> layers;
  int64_t first = 0;
  for (int64_t part = 0; part + 1 < parts; ++part) {
    const int64_t end = others * (part + 1) / (parts - 1);
    layers.push_back({.first = first, .count = end - first});
    first = end;
  }
  layers.push_back({.first = first, .count = last});
  return layers;
}

std::vector<StageLayers> layers_of_stage(const ModelConfig& config, const StagePlace& place, int64_t seq_len,
                                         const std::vector<int64_t>& given) {
  require_layers(config, place.stages, place.chunks, given);
  const std::vector<StageLayers> parts =
      given.empty() ? balanced_layers(config, place.stages * place.chunks, seq_len) : parts_of(given);
  std::vector<StageLayers> mine;
  for (int64_t chunk = 0; chunk < place.chunks; ++chunk) {
    mine.push_back(parts[static_cast<size_t>(chunk * place.stages + place.stage)]);
  }
  return mine;
}

bool holds_param(const StagePlace& place, const std::vector<StageLayers>& layers, const ModelConfig& config,
                 const ParamSpec& spec) {
  if (spec.layer >= 0) {
    return std::any_of(layers.begin(), layers.end(),
                       [&](const StageLayers& range) { return range.contains(spec.layer); });
  }
  if (spec.role != ParamRole::kEmbedding) return place.is_last();
  return place.is_first() || (place.is_last() && config.tie_word_embeddings);
}

ParamTable stage_params(ParamTable table, const StagePlace& place, const std::vector<StageLayers>& layers,
                        const ModelConfig& config) {
  if (place.stages == 1) return table;
  std::erase_if(table.params, [&](const ParamSpec& spec) { return !holds_param(place, layers, config, spec); });
  table.num_parameters = 0;
  for (ParamSpec& spec : table.params) {
    table.num_parameters += spec.shape.num_elements();
    spec.is_counted_elsewhere = spec.role == ParamRole::kEmbedding && !place.is_first();
  }
  return table;
}

}  // namespace litespark
