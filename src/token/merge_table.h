// SPDX-License-Identifier: Apache-2.0
// (left id, right id) -> (rank, merged id): one flat hash table, one cache line a lookup.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace litespark::token {

struct Merge {
  uint32_t rank = UINT32_MAX;  ///< UINT32_MAX: no such merge
  int32_t id = -1;
};

class MergeTable {
 public:
  explicit MergeTable(size_t expected);

  /// Adds or replaces: as in the library the last of equal pairs counts.
  void insert(int32_t left, int32_t right, Merge merge);

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return {};
    }
  }

  /// Calls visit(left, right, merge) for every pair, in no order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_) {
      if (slot.key == kEmpty) continue;
      visit(static_cast<int32_t>(slot.key >> 32), static_cast<int32_t>(slot.key & 0xFFFFFFFFu), slot.merge);
    }
  }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }

  int shift_;
  size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace litespark::token
