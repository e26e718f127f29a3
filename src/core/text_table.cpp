// SPDX-License-Identifier: Apache-2.0
#include "core/text_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/quote.h"

namespace litespark {
namespace {

/// Columns on a terminal: UTF-8 continuation bytes take none.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = plain_text(cell);
  rows_.push_back(std::move(row));
}

std::string TextTable::to_string(const std::string& indent) const {
  const size_t num_columns = rows_.front().size();
  std::vector<size_t> widths(num_columns, 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < std::min(num_columns, row.size()); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  size_t total = 2 * (num_columns - 1);
  for (const size_t width : widths) total += width;
  const std::string rule = indent + std::string(total, '-') + "\n";
  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r].empty()) {
      out += rule;
      continue;
    }
    std::string line = indent;
    for (size_t i = 0; i < num_columns; ++i) {
      const std::string cell = i < rows_[r].size() ? rows_[r][i] : std::string();
      const std::string padding(widths[i] - width_of(cell), ' ');
      if (i > 0) line.append("  ").append(padding);
      line += cell;
      if (i == 0) line += padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) out += rule;
  }
  return out;
}

std::string fixed_text(double value, int decimals) {
  std::string out;
  append_fixed(out, value, decimals);
  return out;
}

void append_fixed(std::string& out, double value, int decimals) {
  if (std::isnan(value)) {
    out += "nan";  // whatever its sign bit
    return;
  }
  std::array<char, 400> buffer{};  // the largest double has 309 digits
  const auto [end, status] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, decimals);
  out.append(buffer.data(), end);
}

std::string bytes_text(int64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fixed_text(value, unit == 0 ? 0 : unit < 3 ? 1 : 2) + " " + std::string(kUnits[unit]);
}

std::string short_text(double value) {
  std::ostringstream stream;
  stream.precision(2);
  stream << value;
  return stream.str();
}

std::string count_text(int64_t count) {
  const double value = static_cast<double>(count);
  if (value >= 1e9) return fixed_text(value / 1e9, 2) + " B";
  if (value >= 1e6) return fixed_text(value / 1e6, 2) + " M";
  if (value >= 1e3) return fixed_text(value / 1e3, 1) + " k";
  return std::to_string(count);
}

}  // namespace litespark
