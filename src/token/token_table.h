// SPDX-License-Identifier: Apache-2.0
// Token text <-> id: one arena of bytes and one open-addressed index.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace litespark::token {

constexpr int32_t kNoId = -1;

class TokenTable {
 public:
  /// Room for ids 0 ... size - 1 and `expected` tokens.
  TokenTable(int32_t size, size_t expected);

  /// Adds a token; false if its text or its id is taken.
  bool insert(std::string_view text, int32_t id);

  /// Id of `text` or kNoId.
  int32_t find(std::string_view text) const;

  /// Text of `id`; empty for holes.
  std::string_view text(int32_t id) const {
    return std::string_view(arena_).substr(offsets_[static_cast<size_t>(id)], lengths_[static_cast<size_t>(id)]);
  }
  bool contains(int32_t id) const { return id >= 0 && id < size() && present_[static_cast<size_t>(id)]; }

  /// Largest possible id + 1.
  int32_t size() const { return static_cast<int32_t>(offsets_.size()); }
  /// Tokens present.
  int32_t count() const { return count_; }

 private:
  size_t slot_of(std::string_view text) const;

  std::string arena_;
  std::vector<size_t> offsets_;
  std::vector<uint32_t> lengths_;
  std::vector<bool> present_;
  std::vector<int32_t> slots_;
  int32_t count_ = 0;
};

}  // namespace litespark::token
