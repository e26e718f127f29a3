// SPDX-License-Identifier: Apache-2.0
// What several commands need before they start: the run file, the model's shape, memory that is settled.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend_choice.h"
#include "command.h"
#include "ops/backend.h"
#include "spec/model_config.h"
#include "spec/program.h"

namespace litespark::cli {

/// First positional and overrides.
RunConfig load_run(const CommandLine& line);

/// A line on standard error for each setting without effect. Only once it is known how many ranks there are.
void warn_of_ignored_settings(const RunConfig& config);

/// Adds --gpus to the overrides; a different --cluster.gpus beside it is refused when they are applied.
CommandLine with_gpus(CommandLine line, const std::optional<int64_t>& gpus);

/// The folder's config.json or the shape keys.
ModelConfig model_of(const RunConfig& config);

/// One line that says what runs: family, size, batch, precision.
std::string run_headline(const RunConfig& config, const Program& program);

/// A run whose micro-batch and recompute are decided, and a line for people when the program decided them.
struct SettledRun {
  RunConfig config;
  std::string note;  ///< with its line break; empty when nothing was changed
};

/// The run with its memory settled: as it is when it fits into memory.budget ("auto": what `free_bytes` says); with
/// more recompute when the budget is "auto" and that is enough; with train.micro_batch = 0 the fastest micro-batch and
/// recompute that fit, by prediction. Throws ConfigError that says what would fit.
SettledRun fit_into_memory(const RunConfig& config, const ModelConfig& model, const BackendSizes& sizes,
                           const std::optional<int64_t>& free_bytes);

/// Library sizes for a plan: the linked backend's, else estimates. Keeps the backend alive.
class PlannedSizes {
 public:
  explicit PlannedSizes(const RunConfig& config);
  const BackendSizes& get() const { return backend_ ? backend_->sizes() : *estimate_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<BackendSizes> estimate_;
};

}  // namespace litespark::cli
