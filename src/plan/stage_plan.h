// SPDX-License-Identifier: Apache-2.0
// The memory of each pipeline stage: stages hold different layers and different numbers of micro-batches in flight, so
// a run fits when its fullest stage does.
#pragma once

#include <string>
#include <vector>

#include "spec/program.h"

namespace litespark {

struct StageMemory {
  std::vector<StageLayers> layers;  ///< a range for each of the stage's chunks
  int64_t in_flight = 0;            ///< chunks of micro-batches between forward and backward, at most
  int64_t persistent_bytes = 0;
  int64_t arena_bytes = 0;

  int64_t total_bytes() const { return persistent_bytes + arena_bytes; }
};

struct StagePlan {
  std::vector<StageMemory> stages;  ///< one where there is no pipeline
  size_t fullest = 0;               ///< of them the first with the most bytes
  Program program;                  ///< of the fullest stage
};

/// Plans every stage of `options`, whatever stage they name. Throws as make_llama_program.
StagePlan plan_stages(const ModelConfig& config, ProgramOptions options, const BackendSizes& sizes);

/// A table for people; "" with one stage.
std::string stages_text(const StagePlan& plan);
/// A list of objects: "layers" (a list of [first, last]), "in_flight", "persistent_bytes", "arena_bytes".
std::string stages_json(const StagePlan& plan);

}  // namespace litespark
