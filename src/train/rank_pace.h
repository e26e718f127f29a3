// SPDX-License-Identifier: Apache-2.0
// Which rank all others wait for: the time that each rank spends on its steps by itself, held against the median.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace litespark {

struct RankPace {
  double median_seconds = 0;  ///< of an even number the lower, so that of two ranks the slower one can be slow
  double slowest_seconds = 0;
  int64_t slowest_rank = 0;
};

/// Of each rank's seconds, one or more.
RankPace pace_of(std::span<const double> seconds);

/// A rank is slow when it takes more than so many times the median, in so many steps in a row.
inline constexpr double kSlowFactor = 1.5;
inline constexpr int64_t kSlowSteps = 5;

class SlowRankWatch {
 public:
  /// `hosts`: the machine of each rank.
  explicit SlowRankWatch(std::vector<std::string> hosts);

  /// A sentence for each rank that has become slow with this step: once, until it has kept up again for a step.
  /// `seconds`: of each rank, or empty where they are unknown.
  std::vector<std::string> see(std::span<const double> seconds);

 private:
  std::vector<std::string> hosts_;
  std::vector<int64_t> steps_in_a_row_;
};

}  // namespace litespark
