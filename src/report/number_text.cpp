// SPDX-License-Identifier: Apache-2.0
#include "report/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

namespace litespark::report {
namespace {

std::string digits_text(double value, int digits) {
  std::array<char, 48> buffer{};
  const auto [end, status] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, digits);
  std::string text(buffer.data(), end);
  // "3e-04" is how C writes it; people write "3e-4".
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  const size_t first = exponent + 2;
  text.erase(first, std::min(text.find_first_not_of('0', first), text.size() - 1) - first);
  if (text[exponent + 1] == '+') text.erase(exponent + 1, 1);
  return text;
}

std::string two_digits(int64_t value) {
  return (value < 10 ? "0" : "") + std::to_string(value);
}

}  // namespace

std::string number_text(double value, int digits, double smallest_in_units) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  if (value == 0.0) return "0";
  static constexpr std::array<std::pair<double, std::string_view>, 4> kUnits = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  const double magnitude = std::abs(value);
  if (magnitude < smallest_in_units || magnitude >= 1e15) return digits_text(value, digits);
  for (const auto& [size, name] : kUnits) {
    if (magnitude >= size) return digits_text(value / size, digits) + std::string(name);
  }
  return digits_text(value, digits);
}

std::string number_plain(double value) {
  std::array<char, 48> buffer{};
  const auto [end, status] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end};
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || std::abs(seconds) > 1e12) return number_text(seconds) + " s";
  if (seconds < 1.0) return number_text(seconds * 1000.0, 3) + " ms";
  if (seconds < 120.0) return number_text(seconds, 3) + " s";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 7200) return std::to_string(whole / 60) + " min " + two_digits(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + two_digits(whole / 60 % 60) + " min";
}

}  // namespace litespark::report
