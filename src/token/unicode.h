// SPDX-License-Identifier: Apache-2.0
// UTF-8 and character classes as the tokenizers library sees them: general categories of Unicode 16, \s and \w of
// Oniguruma. One byte of flags a code point, looked up in a flat table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace litespark::token {

/// Flags of a code point; a code point may carry several.
enum CharClass : uint8_t {
  kLetter = 1,        ///< \p{L}
  kNumber = 2,        ///< \p{N}
  kSpace = 4,         ///< White_Space
  kMark = 8,          ///< \p{M}
  kPunctuation = 16,  ///< \p{P} or ASCII punctuation
  kWord = 32,         ///< Alphabetic, \p{M}, \p{Nd}, \p{Pc}, joiners: \w of added tokens
  kNumeric = 64,      ///< \p{N} as the Digits pre-tokenizer counts it
};

/// Flags of `code_point`; 0 for unassigned ones.
uint8_t char_class(char32_t code_point);

/// Flags of the 128 ASCII characters, for inner loops.
extern const std::array<uint8_t, 128> kAsciiClass;

struct DecodedChar {
  char32_t code_point = 0;
  uint32_t length = 0;
};

/// Code point at `text[position]` of valid UTF-8; position < text.size().
inline DecodedChar decode_char(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const auto tail = [&](size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  if (lead < 0xE0) return {(static_cast<char32_t>(lead & 0x1F) << 6) | tail(1), 2};
  if (lead < 0xF0) return {(static_cast<char32_t>(lead & 0x0F) << 12) | (tail(1) << 6) | tail(2), 3};
  return {(static_cast<char32_t>(lead & 0x07) << 18) | (tail(1) << 12) | (tail(2) << 6) | tail(3), 4};
}

/// Start of the character that ends at `position` (> 0) of valid UTF-8.
inline size_t previous_char(std::string_view text, size_t position) {
  do {
    --position;
  } while ((static_cast<uint8_t>(text[position]) & 0xC0) == 0x80);
  return position;
}

/// Bytes of the character that starts with `lead`.
inline uint32_t char_length(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void append_utf8(char32_t code_point, std::string* out);

bool is_valid_utf8(std::string_view text);

/// `bytes` with every maximal invalid subsequence replaced by U+FFFD (the substitution of the Unicode standard, table
/// 3-8, and of Rust's from_utf8_lossy).
std::string repair_utf8(std::string_view bytes);

/// Characters assigned after Unicode 14: installed libraries may be older than the tokenizers library's tables.
struct UnicodeAddition {
  char32_t first;
  char32_t last;
  const char* category;  ///< Lu, Ll, Lm, Lo, M, Nd, No, P or S
};
std::span<const UnicodeAddition> unicode_additions();

}  // namespace litespark::token
