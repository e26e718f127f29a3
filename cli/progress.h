// SPDX-License-Identifier: Apache-2.0
// The run on the console: one line that renews itself on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "train/metrics_log.h"
#include "train/run_loop.h"
#include "train/sample_log.h"

namespace litespark::cli {

class Progress {
 public:
  /// Prints a line every `log_every` steps when standard output is no terminal.
  Progress(int64_t steps, int64_t log_every, int64_t steps_done, int64_t tokens_done);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const StepRecord& record, const StepMeasurements& measurements);
  void show_eval(int64_t step, const EvalResult& result);
  /// In quotes, with control characters escaped: what a model writes must not steer a terminal.
  void show_sample(const TextSample& sample);
  /// A line of its own, below what stands there.
  void note(const std::string& text);

 private:
  /// Writes line_.
  void compose_line(const StepRecord& record, const StepMeasurements& measurements);

  int64_t steps_;
  int64_t log_every_;
  bool is_terminal_;
  bool has_open_line_ = false;
  int64_t tokens_before_;
  double smooth_loss_ = 0;     ///< exponential mean over about 20 steps
  double smooth_seconds_ = 0;  ///< of a step, the same
  int64_t num_shown_ = 0;
  std::string line_;  ///< keeps its memory from step to step
  std::chrono::steady_clock::time_point last_drawn_;
};

}  // namespace litespark::cli
