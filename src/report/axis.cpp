// SPDX-License-Identifier: Apache-2.0
#include "report/axis.h"

#include <algorithm>
#include <cmath>

#include "report/number_text.h"

namespace litespark::report {
namespace {

constexpr double kPadding = 0.05;
/// Narrower ranges than this share of their values would be drawn from rounding errors.
constexpr double kNarrowestShare = 1e-6;

/// The next of 1, 2, 5 times a power of ten at or above `rough`.
double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1.0 - 1e-9)) return factor * power;
  }
  return 10.0 * power;
}

}  // namespace

Axis make_axis(double smallest, double largest, const AxisOptions& options) {
  Axis axis{.low = smallest, .high = largest};
  const bool from_zero = options.starts_at_zero && smallest >= 0.0;
  if (from_zero) axis.low = 0.0;
  const double magnitude = std::max(std::abs(axis.low), std::abs(axis.high));
  if (axis.high - axis.low <= magnitude * kNarrowestShare) {
    const double room = magnitude > 0.0 ? magnitude * 0.1 : 1.0;
    if (!from_zero) axis.low -= room;
    axis.high += room;
  } else if (options.is_padded) {
    const double room = (axis.high - axis.low) * kPadding;
    if (!from_zero) axis.low -= room;
    axis.high += room;
  }
  double step = round_step((axis.high - axis.low) / std::max(options.num_ticks, 1));
  if (options.has_whole_ticks) step = std::max(step, 1.0);
  // Counted in whole steps: adding up would gather rounding errors.
  // All ticks in one unit: 5k beside 10k.
  const double unit_from = std::max(std::abs(axis.low), std::abs(axis.high)) >= 1e4 ? 1e3 : 1e4;
  const double first = std::ceil(axis.low / step - 1e-9);
  for (int i = 0; i <= 2 * options.num_ticks + 2; ++i) {
    const double value = (first + i) * step;
    if (value > axis.high + step * 1e-9) break;
    axis.ticks.push_back({.value = value, .text = number_text(value, 6, unit_from)});
  }
  return axis;
}

}  // namespace litespark::report
