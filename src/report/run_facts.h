// SPDX-License-Identifier: Apache-2.0
// The few numbers that sum up a run. A sum says how many of its parts were measured: a sum of some is not the run's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/run_folder.h"

namespace litespark::report {

struct PartialSum {
  double sum = 0.0;
  int64_t num_measured = 0;
  int64_t num_all = 0;

  bool is_measured() const { return num_measured > 0; }
  bool is_whole() const { return num_measured == num_all; }
};

/// The energy of one device measured one way.
struct DeviceEnergy {
  std::string device;
  std::string method;
  double seconds = 0.0;  ///< of the intervals whose energy is known
  PartialSum joules;     ///< over intervals

  /// Absent without energy or time.
  std::optional<double> mean_watts() const;
};

struct RunFacts {
  std::optional<int64_t> last_step;
  std::optional<double> tokens;
  std::optional<double> last_loss;  ///< of the last step that has one
  std::optional<double> last_eval_loss;
  std::optional<double> best_eval_loss;
  std::optional<double> median_tokens_per_second;
  std::optional<double> median_mfu;
  double data_wait_seconds = 0.0;
  PartialSum step_joules;  ///< over the recorded steps
  /// Of the whole run. The devices' records count what no recorded step does: the last save, and steps that a crash
  /// made the run take twice. While they lag behind the steps (or are absent), the steps' own sum.
  PartialSum joules;
  PartialSum co2_grams;               ///< the steps', in proportion to `joules`
  std::vector<DeviceEnergy> devices;  ///< in the order of their first line
  bool is_energy_estimated = false;   ///< some of it comes from a model, not from a counter
  int64_t num_skipped = 0;
};

RunFacts run_facts(const RunFolder& run);

/// Absent without values; the mean of the middle two of an even number.
std::optional<double> median(std::vector<double> values);

}  // namespace litespark::report
