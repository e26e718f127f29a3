// SPDX-License-Identifier: Apache-2.0
#include "token/token_table.h"

#include <xxhash.h>

#include <bit>

namespace litespark::token {

TokenTable::TokenTable(int32_t size, size_t expected)
    : offsets_(static_cast<size_t>(size)),
      lengths_(static_cast<size_t>(size)),
      present_(static_cast<size_t>(size)),
      slots_(std::bit_ceil(2 * expected + 2), kNoId) {}

size_t TokenTable::slot_of(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = XXH3_64bits(text.data(), text.size()) & mask;
  while (slots_[slot] != kNoId && this->text(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

bool TokenTable::insert(std::string_view text, int32_t id) {
  const auto index = static_cast<size_t>(id);
  const size_t slot = slot_of(text);
  if (slots_[slot] != kNoId || present_[index]) return false;
  offsets_[index] = arena_.size();
  lengths_[index] = static_cast<uint32_t>(text.size());
  arena_.append(text);
  present_[index] = true;
  slots_[slot] = id;
  ++count_;
  return true;
}

int32_t TokenTable::find(std::string_view text) const {
  return slots_[slot_of(text)];
}

}  // namespace litespark::token
