// SPDX-License-Identifier: Apache-2.0
// Where a chart's axis begins and ends, and its round numbers in between.
#pragma once

#include <string>
#include <vector>

namespace litespark::report {

struct Tick {
  double value = 0.0;
  std::string text;
};

struct Axis {
  double low = 0.0;
  double high = 1.0;  ///< above low
  std::vector<Tick> ticks;

  /// 0 at low, 1 at high.
  double place_of(double value) const { return (value - low) / (high - low); }
};

struct AxisOptions {
  int num_ticks = 5;             ///< about as many
  bool starts_at_zero = false;   ///< when no value is below 0
  bool is_padded = true;         ///< a little air below the smallest and above the largest value
  bool has_whole_ticks = false;  ///< steps have no halves
};

/// The axis for finite values between `smallest` and `largest`; equal ones get room around them.
Axis make_axis(double smallest, double largest, const AxisOptions& options);

}  // namespace litespark::report
