// SPDX-License-Identifier: Apache-2.0
#include "plan/stage_plan.h"

#include "core/text_table.h"

namespace litespark {

StagePlan plan_stages(const ModelConfig& config, ProgramOptions options, const BackendSizes& sizes) {
  StagePlan plan;
  for (options.stage = 0; options.stage < options.stages; ++options.stage) {
    Program program = make_llama_program(config, options, sizes);
    plan.stages.push_back({.layers = program.layers,
                           .in_flight = most_in_flight(options.stage_place(), options.micro_batches),
                           .persistent_bytes = program.memory->persistent_bytes(),
                           .arena_bytes = program.memory->arena_bytes()});
    const bool is_fullest =
        options.stage == 0 || plan.stages.back().total_bytes() > plan.stages[plan.fullest].total_bytes();
    if (!is_fullest) continue;
    plan.fullest = static_cast<size_t>(options.stage);
    plan.program = std::move(program);
  }
  return plan;
}

std::string stages_text(const StagePlan& plan) {
  if (plan.stages.size() == 1) return {};
  const bool is_interleaved = plan.program.options.chunks > 1;
  TextTable table({"pipeline stage", "layers", is_interleaved ? "chunks in flight" : "micro-batches in flight",
                   "memory", "whole run", "arena"});
  for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StageMemory& memory = plan.stages[stage];
    std::string layers;
    for (const StageLayers& range : memory.layers) {
      layers += (layers.empty() ? "" : ", ") + std::to_string(range.first) + " to " + std::to_string(range.end() - 1);
    }
    table.add({std::to_string(stage) + (stage == plan.fullest ? ", the fullest" : ""), layers,
               std::to_string(memory.in_flight), bytes_text(memory.total_bytes()), bytes_text(memory.persistent_bytes),
               bytes_text(memory.arena_bytes)});
  }
  return table.to_string("  ") + "\n";
}

std::string stages_json(const StagePlan& plan) {
  std::string text;
  for (const StageMemory& memory : plan.stages) {
    std::string layers;
    for (const StageLayers& range : memory.layers) {
      layers +=
          (layers.empty() ? "[" : ", [") + std::to_string(range.first) + ", " + std::to_string(range.end() - 1) + "]";
    }
    text += (text.empty() ? "" : ", ") + std::string("{\"layers\": [") + layers +
            "], \"in_flight\": " + std::to_string(memory.in_flight) +
            ", \"persistent_bytes\": " + std::to_string(memory.persistent_bytes) +
            ", \"arena_bytes\": " + std::to_string(memory.arena_bytes) + "}";
  }
  return "[" + text + "]";
}

}  // namespace litespark
