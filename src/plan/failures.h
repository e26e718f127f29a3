// SPDX-License-Identifier: Apache-2.0
// What failures add to a long run: in the mean, by a closed form, and played out once with random times.
#pragma once

#include <cstdint>
#include <optional>

namespace litespark {

/// A run that saves every `interval` seconds, each save taking `save`; a failure costs half an interval on average and
/// `restart`.
struct FailureModel {
  double device_mtbf_hours = 50000;
  double gpus = 1;
  double save_seconds = 60;
  double restart_seconds = 600;
  double seconds_between_failures() const { return 3600 * device_mtbf_hours / gpus; }
};
/// Of one whole save of `parameters` (master and two moments in fp32), written by all nodes at a gigabyte a second
/// each.
double whole_save_seconds(double parameters, double nodes);
/// sqrt(2 save x time between failures) (Young 1974; Daly 2006, first order).
double best_save_interval_seconds(const FailureModel& model);
/// Wall seconds over seconds of useful work; nullopt where failures come faster than work is redone.
std::optional<double> failure_stretch(const FailureModel& model, double interval_seconds);

/// One run with failures at random times.
struct FailureReplay {
  int64_t num_failures = 0;
  double wall_seconds = 0;
  double redone_seconds = 0;  ///< steps done again
  double save_seconds = 0;
};
/// Times between failures are exponential, drawn from `seed`; none happens during a restart. The last piece needs no
/// save. nullopt where a million failures do not see the end of `useful_seconds` of steps. Throws ConfigError for
/// intervals that are not positive.
std::optional<FailureReplay> replay_failures(const FailureModel& model, double useful_seconds, double interval_seconds,
                                             uint64_t seed);

}  // namespace litespark
