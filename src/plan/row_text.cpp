// SPDX-License-Identifier: Apache-2.0
#include "plan/row_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace litespark {
namespace {

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::optional<double> parsed(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::string lower_text(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool contains_text(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_any_text(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return contains_text(text, part); });
}

std::optional<double> number_before(std::string_view text, std::string_view unit) {
  for (size_t at = text.find(unit); at != std::string_view::npos; at = text.find(unit, at + 1)) {
    size_t end = at;
    if (end > 0 && text[end - 1] == ' ') --end;
    size_t start = end;
    while (start > 0 && (is_digit(text[start - 1]) || text[start - 1] == '.')) --start;
    if (const auto value = parsed(text.substr(start, end - start))) return value;
  }
  return std::nullopt;
}

std::optional<double> number_after(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if (at > 0 && std::isalpha(static_cast<unsigned char>(text[at - 1]))) continue;
    const size_t start = at + name.size();
    size_t end = start;
    while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
    while (end > start && text[end - 1] == '.') --end;
    if (const auto value = parsed(text.substr(start, end - start))) return value;
  }
  return std::nullopt;
}

std::optional<double> whole_number_text(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  if (text.empty()) return std::nullopt;
  return parsed(text);
}

std::optional<int> year_in_text(std::string_view text) {
  std::optional<int> year;
  for (size_t i = 0; i + 4 <= text.size(); ++i) {
    if (i > 0 && is_digit(text[i - 1])) continue;
    size_t length = 0;
    while (i + length < text.size() && is_digit(text[i + length])) ++length;
    // "2104" opens the number of a preprint: year and month.
    const bool is_preprint = length == 4 && i + 5 < text.size() && text[i + 4] == '.' && is_digit(text[i + 5]);
    // "202412" is a year with its month.
    if (length != 4 && length != 6) continue;
    int value = 0;
    std::from_chars(text.data() + i, text.data() + i + 4, value);
    if (is_preprint) value = 2000 + value / 100;
    if (value < 2017 || value > 2040) continue;
    year = std::max(year.value_or(value), value);
  }
  return year;
}

}  // namespace litespark
