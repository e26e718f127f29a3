// SPDX-License-Identifier: Apache-2.0
// One step played event by event: every pipeline of every data-parallel rank with its own slow devices, where the
// closed form (plan/step_time.h) knows only equal ones.
#pragma once

#include <string>
#include <vector>

#include "plan/step_time.h"

namespace litespark {

struct ReplayQuestion {
  Workload workload;
  Software software;
  Hardware hardware;
  uint64_t seed = 1;
  /// Devices differ: each is slower by exp(spread x z), z the size of a standard normal. 0: all are equal.
  double spread = 0;
};

/// Something that a stage does, seconds from the step's start.
struct ReplaySpan {
  int64_t stage = 0;
  int64_t chunk = 0;
  int64_t micro_batch = 0;
  bool is_backward = false;
  double start = 0;
  double end = 0;
};

struct ReplayResult {
  double step_seconds = 0;
  double waiting_share = 0;    ///< of all stages of the slowest pipeline, until the gradients' sum
  double gradients_start = 0;  ///< when the slowest pipeline is done
  double update_start = 0;
  int64_t slowest_rank = 0;       ///< data-parallel rank
  std::vector<ReplaySpan> spans;  ///< of that rank
};

/// Throws ConfigError through check_workload, and for more than 2^28 events.
ReplayResult replay_step(const ReplayQuestion& question);

/// The trace event format that chrome://tracing and Perfetto read: a row a stage.
std::string chrome_trace(const ReplayResult& result);

}  // namespace litespark
