// SPDX-License-Identifier: Apache-2.0
#include "core/arena_map.h"

#include <algorithm>

namespace litespark {

void ByteRuns::add(int64_t begin, int64_t end) {
  const auto first =
      std::lower_bound(runs_.begin(), runs_.end(), begin, [](const Run& run, int64_t at) { return run.end < at; });
  auto behind = first;
  while (behind != runs_.end() && behind->begin <= end) {
    begin = std::min(begin, behind->begin);
    end = std::max(end, behind->end);
    ++behind;
  }
  if (first == behind) {
    runs_.insert(first, {begin, end});
    return;
  }
  *first = {begin, end};
  runs_.erase(first + 1, behind);
}

int64_t ByteRuns::next_fit(int64_t offset, int64_t bytes) const {
  auto run =
      std::upper_bound(runs_.begin(), runs_.end(), offset, [](int64_t at, const Run& each) { return at < each.end; });
  while (run != runs_.end() && run->begin < offset + bytes) offset = (run++)->end;
  return offset;
}

ArenaMap::ArenaMap(int32_t num_ops) {
  while (num_leaves_ < num_ops) num_leaves_ *= 2;
  nodes_.resize(static_cast<size_t>(num_leaves_) * 2);
}

template <class Visit>
void ArenaMap::descend(OpRange ops, const Visit& visit) const {
  const auto at = [&](const auto& self, size_t node, int32_t first, int32_t last) -> void {
    if (last < ops.first || ops.last < first) return;
    const bool is_inside = ops.first <= first && last <= ops.last;
    visit(node, is_inside);
    if (is_inside) return;
    const int32_t middle = first + (last - first) / 2;
    self(self, node * 2, first, middle);
    self(self, node * 2 + 1, middle + 1, last);
  };
  at(at, 1, 0, num_leaves_ - 1);
}

void ArenaMap::take(int64_t begin, int64_t end, OpRange ops) {
  descend(ops, [&](size_t node, bool is_inside) {
    nodes_[node].somewhere.add(begin, end);
    if (is_inside) nodes_[node].throughout.add(begin, end);
  });
}

int64_t ArenaMap::first_fit(int64_t bytes, OpRange ops) const {
  std::vector<const ByteRuns*> in_the_way;
  descend(ops, [&](size_t node, bool is_inside) {
    in_the_way.push_back(is_inside ? &nodes_[node].somewhere : &nodes_[node].throughout);
  });
  int64_t offset = 0;
  size_t num_agreed = 0;  // in a row
  for (size_t i = 0; num_agreed < in_the_way.size(); i = (i + 1) % in_the_way.size()) {
    const int64_t next = in_the_way[i]->next_fit(offset, bytes);
    num_agreed = next == offset ? num_agreed + 1 : 1;
    offset = next;
  }
  return offset;
}

}  // namespace litespark
