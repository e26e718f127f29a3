// SPDX-License-Identifier: Apache-2.0
#include "run_setup.h"

#include <iostream>

#include "core/text_table.h"
#include "io/hf_config.h"
#include "plan/estimated_sizes.h"
#include "plan/memory_fit.h"

namespace litespark::cli {

RunConfig load_run(const CommandLine& line) {
  return read_run_file(line.positionals.at(0), line.overrides);
}

void warn_of_ignored_settings(const RunConfig& config) {
  for (const std::string& setting : config.ignored_settings()) {
    std::cerr << "litespark: warning: no effect: " << setting << "\n";
  }
}

CommandLine with_gpus(CommandLine line, const std::optional<int64_t>& gpus) {
  if (gpus) line.overrides.push_back({"cluster.gpus", std::to_string(*gpus)});
  return line;
}

ModelConfig model_of(const RunConfig& config) {
  if (config.model.init == ModelInit::kScratch) return scratch_model_config(config);
  ModelConfig shape = read_hf_config(std::filesystem::path(config.model.path) / "config.json");
  if (config.data.seq_len > shape.max_position_embeddings) {
    throw ConfigError("data.seq_len", "is longer than the model's context", config.data.seq_len,
                      "at most the folder's max_position_embeddings, " + std::to_string(shape.max_position_embeddings));
  }
  // A run decides in what it computes, as with every other key of [precision].
  if (shape.positions == Positions::kRope) shape.rope.precision = config.precision.rope;
  return shape;
}

namespace {

/// Whether a plan is one of a GPU's memory: `auto` counts as the CPU where there is none.
bool plans_for_gpu(const RunConfig& config) {
  return config.device.kind == DeviceKind::kCuda || wants_cuda(config);
}

/// Left free beside a plan that the program chose by itself: a GPU's kernels are loaded as they are first run, and the
/// timing of matmuls wants operands.
int64_t usable_bytes(int64_t free_bytes) {
  return free_bytes - free_bytes / 50;
}

[[noreturn]] void refuse_memory(const MemoryQuestion& question, const std::string& planned, bool is_named) {
  throw ConfigError("memory.budget", "the run does not fit", planned,
                    "at most " + bytes_text(question.budget_bytes) + (is_named ? "" : ", what is free"),
                    fitting_advice(question));
}

SettledRun choose_micro_batch(const MemoryQuestion& question, bool is_named) {
  const std::vector<FittingRun> runs = fitting_micro_batches(question);
  if (runs.empty()) refuse_memory(question, "more planned with every micro-batch", is_named);
  return {.config = runs.front().config, .note = choice_text(runs, question.budget_bytes) + "\n"};
}

}  // namespace

SettledRun fit_into_memory(const RunConfig& config, const ModelConfig& model, const BackendSizes& sizes,
                           const std::optional<int64_t>& free_bytes) {
  if (config.memory.offload != Offload::kNone && !plans_for_gpu(config)) {
    throw ConfigError("memory.offload", "needs a GPU: a CPU's activations are in host memory already", "activations",
                      "none");
  }
  const std::optional<int64_t> named = config.memory.budget_bytes();
  const bool is_open = config.train.micro_batch == 0;
  if (!named && !free_bytes) {
    if (!is_open) return {.config = config, .note = {}};
    throw ConfigError("train.micro_batch", "0 leaves the choice to the memory plan, which knows no size", 0,
                      "memory.budget as a size, or --device-memory");
  }
  const int64_t budget = named ? *named : is_open ? usable_bytes(*free_bytes) : *free_bytes;
  const MemoryQuestion question{config, model, sizes, budget, plans_for_gpu(config) ? kGpuRates : kCpuRates};
  if (is_open) return choose_micro_batch(question, named.has_value());
  const int64_t planned = planned_bytes(question);
  if (planned <= question.budget_bytes) return {.config = config, .note = {}};
  const std::optional<FittingRun> fitting = named ? std::nullopt : fit_by_recompute(question);
  if (!fitting) refuse_memory(question, bytes_text(planned) + " planned", named.has_value());
  RunConfig changed = fitting->config;
  const std::string recompute = value_text(*Fields::of(changed).find("memory.recompute"));
  return {.config = fitting->config,
          .note = "memory.recompute = " + recompute + ": without it " + bytes_text(planned) + " would be needed, " +
                  bytes_text(question.budget_bytes) + " are free\n"};
}

std::string run_headline(const RunConfig& config, const Program& program) {
  const ModelConfig& shape = program.config;
  RunConfig copy = config;
  const Fields fields = Fields::of(copy);
  const auto value = [&](const char* path) {
    const std::string text = value_text(*fields.find(path));
    return text.substr(1, text.size() - 2);
  };
  return family_name(shape.family) + ", " + count_text(program.whole_params.num_parameters) + " parameters (" +
         std::to_string(shape.num_hidden_layers) + " x " + std::to_string(shape.hidden_size) + "); " +
         std::to_string(config.train.micro_batch) + " x " + std::to_string(config.data.seq_len) +
         " tokens at a time, " + count_text(config.tokens_per_step()) + " a step; " + value("precision.compute") +
         (config.precision.matmul == MatmulPrecision::kCompute ? "" : ", " + value("precision.matmul") + " matmuls") +
         ", recompute " + value("memory.recompute") + "\n";
}

PlannedSizes::PlannedSizes(const RunConfig& config) {
  if (plans_for_gpu(config) && num_gpus() == 0) {
    estimate_ = std::make_unique<EstimatedGpuSizes>(config.deterministic);
  } else {
    backend_ = make_backend(config);
  }
}

}  // namespace litespark::cli
