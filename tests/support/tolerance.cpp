// SPDX-License-Identifier: Apache-2.0
#include "support/tolerance.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/error.h"

namespace litespark::test {
namespace {

/// 0 finite, 1 NaN, 2 +infinity, 3 -infinity.
int kind_of(double value) {
  if (std::isnan(value)) return 1;
  if (std::isinf(value)) return value > 0 ? 2 : 3;
  return 0;
}

/// Half a unit in the last place, relative: the error of one rounding.
double rounding_of(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-9 : 0x1p-24;
}

}  // namespace

std::string ErrorStats::to_string() const {
  std::ostringstream text;
  text << "n " << count << ", kinds differ " << kind_mismatches << ", max abs " << max_abs << ", max rel " << max_rel
       << ", rms " << rms << ", mean signed " << mean_signed << ", largest expected " << largest_expected
       << ", mean magnitude " << mean_abs_expected;
  return text.str();
}

ErrorStats compare(std::span<const double> actual, std::span<const double> expected) {
  if (actual.size() != expected.size()) {
    throw InternalError("compare", "sizes differ", actual.size(), expected.size());
  }
  ErrorStats stats;
  double square_sum = 0;
  double signed_sum = 0;
  double magnitude_sum = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const int kind = kind_of(expected[i]);
    if (kind_of(actual[i]) != kind) ++stats.kind_mismatches;
    if (kind != 0 || kind_of(actual[i]) != 0) continue;
    const double error = actual[i] - expected[i];
    ++stats.count;
    stats.max_abs = std::max(stats.max_abs, std::abs(error));
    if (expected[i] != 0) stats.max_rel = std::max(stats.max_rel, std::abs(error / expected[i]));
    stats.largest_expected = std::max(stats.largest_expected, std::abs(expected[i]));
    square_sum += error * error;
    signed_sum += error;
    magnitude_sum += std::abs(expected[i]);
  }
  if (stats.count > 0) {
    stats.rms = std::sqrt(square_sum / static_cast<double>(stats.count));
    stats.mean_signed = signed_sum / static_cast<double>(stats.count);
    stats.mean_abs_expected = magnitude_sum / static_cast<double>(stats.count);
  }
  return stats;
}

std::string kernel_rule_violation(const ErrorStats& actual, const ErrorStats& plain, DType dtype) {
  constexpr int64_t kLargeSample = 1024;
  const double one_rounding = rounding_of(dtype) * actual.largest_expected;
  const double slack = actual.count < kLargeSample ? one_rounding : 0.0;
  std::ostringstream text;
  if (actual.kind_mismatches > 0) text << "NaN or infinities differ; ";
  if (actual.max_abs > 2.0 * plain.max_abs + slack) text << "maximum error above 2x; ";
  if (actual.rms > 1.5 * plain.rms + slack) text << "RMS error above 1.5x; ";
  const double root = std::sqrt(static_cast<double>(std::max<int64_t>(actual.count, 1)));
  const double chance = 4.0 * std::max(actual.rms, slack) / root;
  const double shared = kSharedRoundings * actual.mean_abs_expected;
  if (std::abs(actual.mean_signed) > std::max({chance, shared, 1.5 * std::abs(plain.mean_signed)})) text << "biased; ";
  if (text.str().empty()) return {};
  return text.str() + "ours: " + actual.to_string() + "; plain: " + plain.to_string();
}

}  // namespace litespark::test
