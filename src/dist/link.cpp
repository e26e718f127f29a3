// SPDX-License-Identifier: Apache-2.0
#include "dist/link.h"

#include <set>
#include <vector>

namespace litespark::dist {

LinkFailure LinkFailure::late(std::span<const int> missed) {
  LinkFailure failure(late_text(missed), Cause::kLate);
  const std::set<int> ranks(missed.begin(), missed.end());
  failure.missed_.assign(ranks.begin(), ranks.end());
  return failure;
}

std::string other_call_text(int rank, const CallLabel& label) {
  return "rank " + std::to_string(rank) + " made another call: " + label.text();
}

std::string no_word_text(std::span<const int> awaited) {
  const std::set<int> ranks(awaited.begin(), awaited.end());
  return "no word from " + ranks_text(std::vector<int>(ranks.begin(), ranks.end()));
}

std::string late_text(std::span<const int> awaited) {
  return no_word_text(awaited) + " before the deadline";
}

}  // namespace litespark::dist
