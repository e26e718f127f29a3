// SPDX-License-Identifier: Apache-2.0
#include "plan/failures.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"

namespace litespark {
namespace {

void need_interval(double seconds) {
  if (!(seconds > 0)) throw ConfigError("interval", "must be positive", seconds, "above 0");
}

}  // namespace

double best_save_interval_seconds(const FailureModel& model) {
  return std::sqrt(2 * model.save_seconds * model.seconds_between_failures());
}

double whole_save_seconds(double parameters, double nodes) {
  return std::max(1.0, 12 * parameters / (1e9 * std::max(1.0, nodes)));
}

std::optional<double> failure_stretch(const FailureModel& model, double interval_seconds) {
  need_interval(interval_seconds);
  const double saving = 1 + model.save_seconds / interval_seconds;
  const double lost = (interval_seconds / 2 + model.restart_seconds) / model.seconds_between_failures();
  if (lost >= 1) return std::nullopt;
  return saving / (1 - lost);
}

std::optional<FailureReplay> replay_failures(const FailureModel& model, double useful_seconds, double interval_seconds,
                                             uint64_t seed) {
  constexpr int64_t kMostFailures = 1'000'000;
  constexpr uint64_t kStream = 0x6661696c;
  need_interval(interval_seconds);
  const RandomStream random(seed, kStream);
  const double piece = interval_seconds + model.save_seconds;
  FailureReplay run;
  double done = 0;  // and saved
  for (uint64_t draw = 0;; ++draw) {
    const double until_failure = -std::log(random.uniform(draw)) * model.seconds_between_failures();
    // Whole pieces, but for the last one, which ends the run.
    const double most = std::max(0.0, std::ceil((useful_seconds - done) / interval_seconds) - 1);
    const double pieces = std::min(most, std::floor(until_failure / piece));
    done += pieces * interval_seconds;
    run.save_seconds += pieces * model.save_seconds;
    const double passed = pieces * piece;
    if (pieces == most && until_failure - passed >= useful_seconds - done) {
      run.wall_seconds += passed + useful_seconds - done;
      return run;
    }
    if (++run.num_failures > kMostFailures) return std::nullopt;
    run.redone_seconds += std::min(until_failure - passed, interval_seconds);
    run.wall_seconds += until_failure + model.restart_seconds;
  }
}

}  // namespace litespark
