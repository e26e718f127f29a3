// SPDX-License-Identifier: Apache-2.0
// Aligned columns for people: the first column to the left, the others to the right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace litespark {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) : rows_{std::move(head)} {}

  /// As many cells as the head has; missing ones are empty. Control characters are escaped (core/quote.h).
  void add(std::vector<std::string> row);
  /// A line between the rows before and after it.
  void add_rule() { rows_.emplace_back(); }
  /// Every line starts with `indent`; the head is underlined; columns stand two spaces apart.
  std::string to_string(const std::string& indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// "1234.5": one decimal.
std::string fixed_text(double value, int decimals = 1);
/// The same at the end of `out`, which need not grow when it has the room.
void append_fixed(std::string& out, double value, int decimals = 1);
/// "1.2e-05": two figures.
std::string short_text(double value);
/// "12.3 MiB": the largest binary unit that keeps the number at 1 or above, two decimals from GiB on.
std::string bytes_text(int64_t bytes);
/// "5.82 M", "1.24 B": parameters and tokens.
std::string count_text(int64_t count);

}  // namespace litespark
