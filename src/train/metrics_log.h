// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: one JSON object a step, every step once, whatever crashes and resumes lie between.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "io/file.h"
#include "train/run_loop.h"

namespace litespark {

/// What the meter adds to a step; absent values are written as null, never as 0.
struct StepMeasurements {
  std::optional<double> mfu;
  std::optional<double> watts;
  std::optional<double> joules;
  std::optional<double> co2_grams;
};

/// The keys of DESIGN.md section 5, in that order.
std::string step_json(const StepRecord& record, int64_t step_tokens, const StepMeasurements& measurements);
/// The same at the end of `out`, which need not grow when it has the room.
void append_step_json(std::string& out, const StepRecord& record, int64_t step_tokens,
                      const StepMeasurements& measurements);

class MetricsLog {
 public:
  /// Continues a log after `steps_done`: lines of later steps, which the resumed run will take again, and a torn last
  /// line are dropped. Throws IoError.
  MetricsLog(const std::filesystem::path& path, int64_t steps_done);

  /// Appends and hands the line to the system; throws IoError when it does not take it.
  void add(const StepRecord& record, const StepMeasurements& measurements = {});
  /// {"step", "eval_loss", "eval_tokens", "eval_seconds"}.
  void add_eval(int64_t step, const EvalResult& result);
  /// {"step", "checkpoint_seconds"}: how long the run stood still; a step may have two, at its save and at the run's
  /// end.
  void add_save(int64_t step, double seconds);
  /// {"step", "warning"}.
  void add_warning(int64_t step, const std::string& text);

 private:
  void write(const std::string& line);

  std::optional<AppendFile> file_;
  std::string step_line_;      ///< keeps its memory from step to step
  int64_t tokens_before_ = 0;  ///< cumulative tokens of the step before
};

}  // namespace litespark
