// SPDX-License-Identifier: Apache-2.0
// How far a kernel may be from the fp64 reference: measured against the error that a plain implementation in the same
// precision makes on the same inputs (DESIGN.md section 6).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/dtype.h"

namespace litespark::test {

/// Errors of `actual` against `expected`, over the elements that are finite in both.
struct ErrorStats {
  int64_t count = 0;
  int64_t kind_mismatches = 0;  ///< NaN, +inf or -inf on one side, something else on the other
  double max_abs = 0;
  double max_rel = 0;  ///< over elements whose expected value is not 0
  double rms = 0;
  double mean_signed = 0;
  double largest_expected = 0;
  double mean_abs_expected = 0;

  /// One line for a failure message.
  std::string to_string() const;
};

ErrorStats compare(std::span<const double> actual, std::span<const double> expected);

/// Relative error that a common f32 factor may bring into all elements: its own rounding and that of the product.
inline constexpr double kSharedRoundings = 2 * 0x1p-24;

/// Empty when `actual` keeps the rule, else what is broken: maximum error at most 2x and RMS at most 1.5x that of the
/// plain implementation, mean signed error at most 4 sigma / sqrt(n) or the plain one's own (a rounded constant shifts
/// both alike), the same NaN and infinities. Small samples get one rounding of `dtype` as slack, since a plain result
/// may be exact by luck. A mean below kSharedRoundings of the mean magnitude is no bias: 4 sigma / sqrt(n) takes errors
/// for independent, and those of a row that one f32 factor scales (a softmax's sum, a norm) are one and the same.
std::string kernel_rule_violation(const ErrorStats& actual, const ErrorStats& plain, DType dtype);

}  // namespace litespark::test
