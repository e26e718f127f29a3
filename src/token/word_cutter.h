// SPDX-License-Identifier: Apache-2.0
// Cuts long words where no merge can reach across, so that the parts can be encoded, and remembered, alone: two
// neighbouring characters that stand together in no merged token are never joined.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "token/bpe_model.h"
#include "token/unicode.h"

namespace litespark::token {

/// The mark that sentencepiece writes for a space.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

class WordCutter {
 public:
  /// For words of characters (WordForm::kChars) of `model`.
  explicit WordCutter(const BpeModel& model);

  /// Whether it cuts at all: not if characters can vanish or stand-ins (unknown, bytes) take part in merges.
  bool is_active() const { return is_active_; }
  /// Whether words are cut before every space mark that follows another character, and only there while that suffices.
  bool cuts_at_marks() const { return cuts_at_marks_; }

  /// Calls emit(part) for the parts of `word`, in order; their ids together are those of `word`.
  template <class Emit>
  void for_each_part(std::string_view word, Emit&& emit) const {
    if (!is_active_) return emit(word);
    if (!cuts_at_marks_) return cut_anywhere(word, emit);
    size_t begin = 0;
    for (size_t at = word.find(kSpaceMark, 1); at != std::string_view::npos; at = word.find(kSpaceMark, at + 1)) {
      if (word.substr(0, at).ends_with(kSpaceMark)) continue;
      cut_anywhere(word.substr(begin, at - begin), emit);
      begin = at;
    }
    cut_anywhere(word.substr(begin), emit);
  }

  bool can_cut(char32_t left, char32_t right) const {
    const size_t l = near_index(left);
    const size_t r = near_index(right);
    if (l < kNear && r < kNear) return near_cuts_[l * kNear + r] != 0;
    return can_cut_far(left, right);
  }

 private:
  static constexpr size_t kNear = 129;  // ASCII and the space mark
  static size_t near_index(char32_t c) { return c < 128 ? c : c == 0x2581 ? 128 : kNear; }

  template <class Emit>
  void cut_anywhere(std::string_view part, Emit& emit) const {
    // Parts that are remembered as they are need no finer cuts where the marks have cut already.
    if (part.size() <= (cuts_at_marks_ ? WordCache::kMaxWordBytes : kShortWord)) return emit(part);
    size_t begin = 0;
    DecodedChar left = decode_char(part, 0);
    for (size_t at = left.length; at < part.size();) {
      const DecodedChar right = decode_char(part, at);
      if (can_cut(left.code_point, right.code_point)) {
        emit(part.substr(begin, at - begin));
        begin = at;
      }
      at += right.length;
      left = right;
    }
    emit(part.substr(begin));
  }

  static constexpr size_t kShortWord = 8;

  void add_neighbours(std::string_view merged);
  bool can_cut_far(char32_t left, char32_t right) const;
  bool is_known(char32_t c) const { return contains(kKnown | c); }
  bool contains(uint64_t key) const;
  void insert(uint64_t key);
  void fill_near();

  static constexpr uint64_t kKnown = uint64_t{1} << 62;
  static constexpr uint64_t kEmpty = UINT64_MAX;
  static uint64_t neighbours(char32_t left, char32_t right) { return static_cast<uint64_t>(left) << 24 | right; }

  bool is_active_ = false;
  bool cuts_at_marks_ = false;
  std::vector<uint8_t> near_cuts_;
  std::vector<uint64_t> keys_;  // open-addressed set: neighbours in merged tokens, and characters that are tokens
  size_t key_count_ = 0;
};

}  // namespace litespark::token
