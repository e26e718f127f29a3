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

/// Throws ConfigError naming cluster.pp and cluster.vpp when some chunk of a stage would be left without a layer, and
/// cluster.pp_layers when `given` is neither empty nor a number of layers for each of stages x chunks parts.
void require_layers(const ModelConfig& config, int64_t stages, int64_t chunks, const std::vector<int64_t>& given = {});
/// The latter but for the model: as many parts as there are, and none empty.
void require_parts(const std::vector<int64_t>& given, int64_t stages, int64_t chunks);

/// The layers in so many contiguous parts, so that the slowest part has as few FLOPs as can be: the head counts for
/// what it costs in layers, and what is left over goes to later parts, which have fewer micro-batches in flight.
/// `seq_len`: tokens of a sequence, for attention's share of a layer. There are at least as many layers as parts.
std::vector<StageLayers> balanced_layers(const ModelConfig& config, int64_t parts, int64_t seq_len);

/// Those of a stage, a range for each of its chunks: of P x v parts every P-th. The parts have as many layers as
/// `given` says, in the model's order; balanced ones where it is empty. Throws as require_layers.
std::vector<StageLayers> layers_of_stage(const ModelConfig& config, const StagePlace& place, int64_t seq_len,
                                         const std::vector<int64_t>& given = {});

/// Whether a stage with these layers stores this parameter. A tied embedding belongs to the first stage, which looks
/// it up, and to the last, whose head it is.
bool holds_param(const StagePlace& place, const std::vector<StageLayers>& layers, const ModelConfig& config,
                 const ParamSpec& spec);

/// The rows of `table` that the stage stores, in its order; their places in flat order stay those of the model, so that
/// noise that is drawn by them does not depend on stages. With one stage `table` itself.
ParamTable stage_params(ParamTable table, const StagePlace& place, const std::vector<StageLayers>& layers,
                        const ModelConfig& config);

}  // namespace litespark
