// SPDX-License-Identifier: Apache-2.0
// Remembers the ids of words. One cache line a lookup: words of up to 16 bytes and up to 3 ids live in their slot.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace litespark::token {

/// A word of up to 16 bytes as two integers, or the hash of a longer one.
struct WordKey {
  uint64_t low = 0;
  uint64_t high = 0;
  uint64_t hash = 0;
};

class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 256;

  explicit WordCache(size_t slots_log2 = 16);

  /// Key of `word`, 1 to kMaxWordBytes bytes long.
  static WordKey key_of(std::string_view word);

  /// Ids of `word` if they are remembered; valid until the next insert.
  std::span<const int32_t> find(std::string_view word, const WordKey& key) const {
    const size_t bucket = bucket_of(key);
    for (size_t i = bucket; i < bucket + kWays; ++i) {
      const Slot& slot = slots_[i];
      if (slot.low == key.low && slot.word_bytes == word.size() && same_word(slot, key, word)) {
        return {slot.id_count <= kInlineIds ? slot.ids : &ids_[static_cast<size_t>(slot.ids[0])], slot.id_count};
      }
    }
    return {};
  }

  /// Remembers `ids` (not empty) for `word`, which is not remembered yet; may forget others.
  void insert(std::string_view word, const WordKey& key, std::span<const int32_t> ids);

 private:
  static constexpr size_t kWays = 4;
  static constexpr size_t kInlineIds = 3;
  static constexpr size_t kInlineBytes = 16;

  struct Slot {
    uint64_t low = 0;
    uint64_t high = 0;
    uint16_t word_bytes = 0;  // 0: empty
    uint16_t id_count = 0;
    int32_t ids[kInlineIds] = {};
  };
  static_assert(sizeof(Slot) == 32);

  size_t bucket_of(const WordKey& key) const { return (key.hash & bucket_mask_) * kWays; }
  // A long word's `low` is its hash and its `high` the place of its bytes.
  bool same_word(const Slot& slot, const WordKey& key, std::string_view word) const {
    if (word.size() <= kInlineBytes) return slot.high == key.high;
    return std::memcmp(&bytes_[slot.high], word.data(), word.size()) == 0;
  }
  void clear();

  size_t bucket_mask_;
  std::vector<Slot> slots_;
  std::vector<int32_t> ids_;  // of words with more than kInlineIds ids
  std::string bytes_;         // of words longer than kInlineBytes
  uint32_t next_victim_ = 0;
};

}  // namespace litespark::token
