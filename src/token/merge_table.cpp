// SPDX-License-Identifier: Apache-2.0
#include "token/merge_table.h"

#include <bit>

namespace litespark::token {

MergeTable::MergeTable(size_t expected) {
  const size_t size = std::bit_ceil(2 * expected + 2);
  shift_ = 64 - std::countr_zero(size);
  mask_ = size - 1;
  slots_.resize(size);
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t slot = slot_of(key);
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask_;
  slots_[slot] = {key, merge};
}

}  // namespace litespark::token
