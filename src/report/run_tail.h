// SPDX-License-Identifier: Apache-2.0
// Where a run stands now, from the ends of its logs: cheap however long they are, and unmoved by a line that is being
// written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "report/run_folder.h"

namespace litespark::report {

struct RunTail {
  std::optional<int64_t> total_steps;  ///< train.steps of run.toml
  std::optional<StepLine> last_step;
  std::optional<EvalLine> last_eval;
  std::optional<WarningLine> last_warning;
  std::optional<double> step_seconds;          ///< mean of the steps in the tail
  std::optional<double> seconds_since_update;  ///< of metrics.jsonl, by the wall clock
  std::vector<EnergyLine> energy;              ///< the newest line of each device

  std::optional<double> seconds_left() const;
  /// Share of the last step that it waited for data.
  std::optional<double> data_wait_share() const;
};

/// The last `tail_bytes` of each log; lines that are torn or malformed are left out. Throws DataError when `folder` is
/// no run folder; IoError.
RunTail read_run_tail(const std::filesystem::path& folder, int64_t tail_bytes = int64_t{1} << 16);

}  // namespace litespark::report
