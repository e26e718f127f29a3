// SPDX-License-Identifier: Apache-2.0
// Which layers each pipeline stage holds, and with them which parameters: the first stage also the embedding, the last
// the final norm and the head.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/param_table.h"
#include "spec/pipeline_schedule.h"

namespace litespark {

/// Layers [first, first + count) of the model.
struct StageLayers {
  int64_t first = 0;
  int64_t count = 0;

  int64_t end() const { return first + count; }
  bool contains(int64_t layer) const { return layer >= first && layer < end(); }
};

/// Throws ConfigError naming cluster.pp when some stage would be left without a layer.
void require_layers(const ModelConfig& config, int64_t stages);

/// The layers of each of `stages` stages, so that the slowest has as few FLOPs as can be: the head counts for what it
/// costs in layers, and what is left over goes to later stages, which have fewer micro-batches in flight. `seq_len`:
/// tokens of a sequence, for attention's share of a layer. Throws as require_layers.
std::vector<StageLayers> balanced_layers(const ModelConfig& config, int64_t stages, int64_t seq_len);

/// Whether a stage that holds `layers` stores this parameter. A tied embedding belongs to the first stage, which looks
/// it up, and to the last, whose head it is.
bool holds_param(const StagePlace& place, const StageLayers& layers, const ModelConfig& config, const ParamSpec& spec);

/// The rows of `table` that the stage stores, in its order; their places in flat order stay those of the model, so that
/// noise that is drawn by them does not depend on stages. With one stage `table` itself.
ParamTable stage_params(ParamTable table, const StagePlace& place, const StageLayers& layers,
                        const ModelConfig& config);

}  // namespace litespark
