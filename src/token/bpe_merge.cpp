// SPDX-License-Identifier: Apache-2.0
// Two ways to the same result: short words rescan their pairs after each merge, long ones keep a heap of candidates.
#include <algorithm>

#include "token/bpe_model.h"

namespace litespark::token {
namespace {

constexpr size_t kShortWord = 48;
constexpr int32_t kGone = -2;  // a symbol that was merged into the one on its left
constexpr int32_t kNone = -1;  // no neighbour

struct LaterFirst {
  bool operator()(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  }
};

}  // namespace

Merge BpeModel::find_merge(int32_t left, int32_t right, const std::vector<bool>* forbidden) const {
  const Merge merge = merges_.find(left, right);
  if (forbidden && merge.id >= 0 && (*forbidden)[static_cast<size_t>(merge.id)]) return {};
  return merge;
}

void BpeModel::merge(const std::vector<bool>* forbidden, BpeScratch* scratch) const {
  if (scratch->symbols.size() < 2) return;
  if (scratch->symbols.size() <= kShortWord) {
    merge_short(forbidden, scratch);
  } else {
    merge_long(forbidden, scratch);
  }
}

void BpeModel::merge_short(const std::vector<bool>* forbidden, BpeScratch* scratch) const {
  std::vector<int32_t>& symbols = scratch->symbols;
  std::vector<Merge>& pairs = scratch->pairs;  // pairs[i]: symbols i and i + 1
  pairs.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) pairs.push_back(find_merge(symbols[i], symbols[i + 1], forbidden));
  while (!pairs.empty()) {
    const auto best =
        std::min_element(pairs.begin(), pairs.end(), [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    if (best->rank == UINT32_MAX) return;
    const auto at = static_cast<size_t>(best - pairs.begin());
    symbols[at] = best->id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    pairs.erase(best);
    if (at > 0) pairs[at - 1] = find_merge(symbols[at - 1], symbols[at], forbidden);
    if (at < pairs.size()) pairs[at] = find_merge(symbols[at], symbols[at + 1], forbidden);
  }
}

void BpeModel::merge_long(const std::vector<bool>* forbidden, BpeScratch* scratch) const {
  std::vector<int32_t>& symbols = scratch->symbols;
  std::vector<int32_t>& next = scratch->next;
  std::vector<int32_t>& previous = scratch->previous;
  std::vector<BpeScratch::Candidate>& heap = scratch->heap;
  const auto count = static_cast<int32_t>(symbols.size());
  next.resize(symbols.size());
  previous.resize(symbols.size());
  heap.clear();
  const auto symbol = [&](int32_t i) -> int32_t& { return symbols[static_cast<size_t>(i)]; };
  const auto candidate = [&](int32_t i, int32_t j) {
    const Merge merge = find_merge(symbol(i), symbol(j), forbidden);
    return BpeScratch::Candidate{merge.rank, static_cast<uint32_t>(i), symbol(i), symbol(j), merge.id};
  };
  for (int32_t i = 0; i < count; ++i) {
    next[static_cast<size_t>(i)] = i + 1 < count ? i + 1 : kNone;
    previous[static_cast<size_t>(i)] = i - 1;
    if (i + 1 == count) break;
    const BpeScratch::Candidate pair = candidate(i, i + 1);
    if (pair.rank != UINT32_MAX) heap.push_back(pair);
  }
  std::make_heap(heap.begin(), heap.end(), LaterFirst{});
  const auto push = [&](int32_t i, int32_t j) {
    const BpeScratch::Candidate pair = candidate(i, j);
    if (pair.rank == UINT32_MAX) return;
    heap.push_back(pair);
    std::push_heap(heap.begin(), heap.end(), LaterFirst{});
  };
  while (!heap.empty()) {
    const BpeScratch::Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), LaterFirst{});
    heap.pop_back();
    const auto i = static_cast<int32_t>(top.position);
    const int32_t j = next[static_cast<size_t>(i)];
    if (symbol(i) != top.left || j == kNone || symbol(j) != top.right) continue;
    symbol(i) = top.id;
    symbol(j) = kGone;
    const int32_t after = next[static_cast<size_t>(j)];
    next[static_cast<size_t>(i)] = after;
    if (after != kNone) previous[static_cast<size_t>(after)] = i;
    if (previous[static_cast<size_t>(i)] != kNone) push(previous[static_cast<size_t>(i)], i);
    if (after != kNone) push(i, after);
  }
  std::erase(symbols, kGone);
}

}  // namespace litespark::token
