// SPDX-License-Identifier: Apache-2.0
#include "dist/link.h"

#include <set>

namespace litespark::dist {

std::string other_call_text(int rank, const CallLabel& label) {
  return "rank " + std::to_string(rank) + " made another call: " + label.text();
}

std::string late_text(std::span<const int> awaited) {
  const std::set<int> ranks(awaited.begin(), awaited.end());
  std::string text = ranks.size() == 1 ? "no word from rank " : "no word from ranks ";
  size_t place = 0;
  for (const int rank : ranks) {
    if (place > 0) text += place + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(rank);
    ++place;
  }
  return text + " before the deadline";
}

}  // namespace litespark::dist
