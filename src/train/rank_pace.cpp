// SPDX-License-Identifier: Apache-2.0
#include "train/rank_pace.h"

#include <algorithm>

#include "core/text_table.h"

namespace litespark {

RankPace pace_of(std::span<const double> seconds) {
  const auto slowest = std::max_element(seconds.begin(), seconds.end());
  std::vector<double> sorted(seconds.begin(), seconds.end());
  const auto middle = sorted.begin() + (std::ssize(sorted) - 1) / 2;
  std::nth_element(sorted.begin(), middle, sorted.end());
  return {.median_seconds = *middle, .slowest_seconds = *slowest, .slowest_rank = slowest - seconds.begin()};
}

SlowRankWatch::SlowRankWatch(std::vector<std::string> hosts)
    : hosts_(std::move(hosts)), steps_in_a_row_(hosts_.size()) {}

std::vector<std::string> SlowRankWatch::see(std::span<const double> seconds) {
  std::vector<std::string> warnings;
  if (seconds.size() != hosts_.size()) return warnings;
  const double median = pace_of(seconds).median_seconds;
  for (size_t rank = 0; rank < hosts_.size(); ++rank) {
    const bool is_slow = seconds[rank] > kSlowFactor * median;
    steps_in_a_row_[rank] = is_slow ? steps_in_a_row_[rank] + 1 : 0;
    if (steps_in_a_row_[rank] != kSlowSteps) continue;
    warnings.push_back("rank " + std::to_string(rank) + " on " + hosts_[rank] +
                       " is slow: " + fixed_text(seconds[rank] / median, 1) +
                       " times the median rank's time for its own work, more than " + fixed_text(kSlowFactor, 1) +
                       " times in " + std::to_string(kSlowSteps) + " steps in a row; every step waits for it");
  }
  return warnings;
}

}  // namespace litespark
