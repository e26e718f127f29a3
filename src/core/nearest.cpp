// SPDX-License-Identifier: Apache-2.0
#include "core/nearest.h"

#include <algorithm>
#include <array>
#include <vector>

namespace litespark {
namespace {

/// Names come from people and files; a longer one is nobody's typo, and the table below is quadratic.
constexpr size_t kLongestName = 256;

bool same_letter(char a, char b) {
  const auto plain = [](char c) { return c == '-' ? '_' : c; };
  return plain(a) == plain(b);
}

}  // namespace

int64_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: the one before the last is needed for swaps.
  std::array<std::vector<int64_t>, 3> rows;
  rows.fill(std::vector<int64_t>(b.size() + 1));
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    const std::vector<int64_t>& before_last = rows[(i + 1) % 3];
    const std::vector<int64_t>& last = rows[(i + 2) % 3];
    std::vector<int64_t>& row = rows[i % 3];
    row[0] = static_cast<int64_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool is_same = same_letter(a[i - 1], b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (is_same ? 0 : 1)});
      if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.empty() || name.size() > kLongestName) return {};
  std::string best;
  int64_t best_distance = std::max<int64_t>(1, static_cast<int64_t>(name.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const int64_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace litespark
