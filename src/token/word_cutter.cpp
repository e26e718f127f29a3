// SPDX-License-Identifier: Apache-2.0
#include "token/word_cutter.h"

#include <utility>

namespace litespark::token {

WordCutter::WordCutter(const BpeModel& model)
    : is_active_(model.has_independent_parts()), near_cuts_(kNear * kNear), keys_(1024, kEmpty) {
  if (!is_active_) return;
  for (int32_t id = 0; id < model.tokens().size(); ++id) {
    const std::string_view text = model.tokens().text(id);
    if (!text.empty() && char_length(text[0]) == text.size()) insert(kKnown | decode_char(text, 0).code_point);
  }
  cuts_at_marks_ = is_known(0x2581);
  model.for_each_merged_token([&](std::string_view text) { add_neighbours(text); });
  fill_near();
}

void WordCutter::add_neighbours(std::string_view merged) {
  DecodedChar left = decode_char(merged, 0);
  for (size_t at = left.length; at < merged.size();) {
    const DecodedChar right = decode_char(merged, at);
    insert(neighbours(left.code_point, right.code_point));
    if (right.code_point == 0x2581 && left.code_point != 0x2581) cuts_at_marks_ = false;
    at += right.length;
    left = right;
  }
}

// Two unknown characters in a row may become one token, so one of them must be known.
bool WordCutter::can_cut_far(char32_t left, char32_t right) const {
  return !contains(neighbours(left, right)) && (is_known(left) || is_known(right));
}

void WordCutter::fill_near() {
  const auto char_of = [](size_t index) { return index < 128 ? static_cast<char32_t>(index) : char32_t{0x2581}; };
  for (size_t l = 0; l < kNear; ++l) {
    for (size_t r = 0; r < kNear; ++r) near_cuts_[l * kNear + r] = can_cut_far(char_of(l), char_of(r)) ? 1 : 0;
  }
}

bool WordCutter::contains(uint64_t key) const {
  const size_t mask = keys_.size() - 1;
  size_t slot = (key * 0x9E3779B97F4A7C15ull >> 20) & mask;
  while (keys_[slot] != kEmpty && keys_[slot] != key) slot = (slot + 1) & mask;
  return keys_[slot] == key;
}

void WordCutter::insert(uint64_t key) {
  if (2 * (key_count_ + 1) > keys_.size()) {
    std::vector<uint64_t> old(2 * keys_.size(), kEmpty);
    std::swap(old, keys_);
    key_count_ = 0;
    for (const uint64_t kept : old) {
      if (kept != kEmpty) insert(kept);
    }
  }
  const size_t mask = keys_.size() - 1;
  size_t slot = (key * 0x9E3779B97F4A7C15ull >> 20) & mask;
  while (keys_[slot] != kEmpty && keys_[slot] != key) slot = (slot + 1) & mask;
  if (keys_[slot] == key) return;
  keys_[slot] = key;
  ++key_count_;
}

}  // namespace litespark::token
