// SPDX-License-Identifier: Apache-2.0
#include "token/word_cache.h"

#include <xxhash.h>

#include <algorithm>

namespace litespark::token {
namespace {

constexpr size_t kMaxSpilledIds = 1 << 20;
constexpr size_t kMaxSpilledBytes = 8 << 20;

template <class T>
uint64_t load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

uint64_t mix(uint64_t low, uint64_t high, uint64_t size) {
  uint64_t h = (low ^ (size * 0x9E3779B97F4A7C15ull)) * 0xBF58476D1CE4E5B9ull;
  h ^= (high + 0x94D049BB133111EBull) * 0xD6E8FEB86659FD93ull;
  h ^= h >> 32;
  h *= 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

}  // namespace

WordCache::WordCache(size_t slots_log2)
    : bucket_mask_((size_t{1} << slots_log2) / kWays - 1), slots_(size_t{1} << slots_log2) {}

WordKey WordCache::key_of(std::string_view word) {
  const char* data = word.data();
  const size_t size = word.size();
  WordKey key;
  // Two overlapping loads see every byte; together with the size they determine the word.
  if (size > kInlineBytes) {
    key.low = XXH3_64bits(data, size);
    key.hash = key.low;
    return key;
  }
  if (size >= 8) {
    key.low = load<uint64_t>(data);
    key.high = load<uint64_t>(data + size - 8);
  } else if (size >= 4) {
    key.low = load<uint32_t>(data);
    key.high = load<uint32_t>(data + size - 4);
  } else {
    key.low = static_cast<uint8_t>(data[0]);
    key.high = load<uint8_t>(data + size / 2) | load<uint8_t>(data + size - 1) << 8;
  }
  key.hash = mix(key.low, key.high, size);
  return key;
}

void WordCache::insert(std::string_view word, const WordKey& key, std::span<const int32_t> ids) {
  if (ids_.size() + ids.size() > kMaxSpilledIds || bytes_.size() + word.size() > kMaxSpilledBytes) clear();
  const size_t bucket = bucket_of(key);
  size_t chosen = bucket + next_victim_++ % kWays;
  for (size_t i = bucket; i < bucket + kWays; ++i) {
    if (slots_[i].word_bytes == 0) {
      chosen = i;
      break;
    }
  }
  Slot& slot = slots_[chosen];
  slot.low = key.low;
  slot.high = key.high;
  slot.word_bytes = static_cast<uint16_t>(word.size());
  slot.id_count = static_cast<uint16_t>(ids.size());
  if (word.size() > kInlineBytes) {
    slot.high = bytes_.size();
    bytes_.append(word);
  }
  if (ids.size() <= kInlineIds) {
    std::copy(ids.begin(), ids.end(), slot.ids);
  } else {
    slot.ids[0] = static_cast<int32_t>(ids_.size());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }
}

void WordCache::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  ids_.clear();
  bytes_.clear();
}

}  // namespace litespark::token
