// SPDX-License-Identifier: Apache-2.0
// What to change when a run does not fit: stronger recompute first, since its results stay bit-equal, then smaller
// micro-batches with more accumulation, which keep the tokens of a step. And the choice of both when the run file
// leaves the micro-batch open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/tape_cost.h"
#include "spec/program.h"
#include "spec/run_config.h"

namespace litespark {

struct MemoryQuestion {
  const RunConfig& config;
  const ModelConfig& model;
  const BackendSizes& sizes;
  int64_t budget_bytes = 0;
  DeviceRates rates = kGpuRates;
};

struct FittingRun {
  RunConfig config;  ///< differs in memory.recompute, train.micro_batch and train.accumulation only
  int64_t total_bytes = 0;
  double step_seconds = 0;  ///< predicted; for comparison only
};

/// Arena and persistent tensors of the training program of `config`, of the fullest where pipeline stages differ.
int64_t planned_bytes(const MemoryQuestion& question);

/// The run with the least recompute that fits without touching the batch; nullopt when none does.
std::optional<FittingRun> fit_by_recompute(const MemoryQuestion& question);

/// The same, and then micro-batches halved until one fits; nullopt when not even the smallest does.
std::optional<FittingRun> fit_by_any_means(const MemoryQuestion& question);

/// With train.micro_batch = 0, where train.accumulation counts the sequences of a step: for each recompute option (none
/// weaker than the run file's) the largest micro-batch that divides them and fits, of pipeline stages the fastest;
/// fastest by prediction first.
std::vector<FittingRun> fitting_micro_batches(const MemoryQuestion& question);

/// One line: the first of `runs`, what it takes, and the second for comparison.
std::string choice_text(const std::vector<FittingRun>& runs, int64_t budget_bytes);

/// One clause for an error: what would fit and how large it is, or that nothing does. Smaller number formats are
/// offered when nothing else helps.
std::string fitting_advice(const MemoryQuestion& question);

}  // namespace litespark
