// SPDX-License-Identifier: Apache-2.0
// The class table: utf8proc's categories, Unicode 16's additions, and the few sets that are not categories.
#include "token/unicode.h"

#include <simdjson.h>
#include <utf8proc.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace litespark::token {
namespace {

// Code points from here on are unassigned, private or (tags and variation selectors) marks.
constexpr char32_t kTableSize = 0x32400;

using Ranges = std::initializer_list<std::pair<char32_t, char32_t>>;

// Other_Alphabetic outside the letter, letter-number and mark categories.
constexpr Ranges kAlphabeticSymbols = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}, {0x200C, 0x200D}};

// Numbers of Unicode 17, which the library's Digits knows and its regular expressions do not.
constexpr Ranges kLateNumerics = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};

uint8_t classes_of_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return kLetter | kWord;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return kMark | kWord;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL: return kNumber | kNumeric | kWord;
    case UTF8PROC_CATEGORY_NO: return kNumber | kNumeric;
    case UTF8PROC_CATEGORY_PC: return kPunctuation | kWord;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return kPunctuation;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return kSpace;
    default: return 0;
  }
}

uint8_t classes_of_addition(const UnicodeAddition& addition) {
  switch (addition.category[0]) {
    case 'L': return kLetter | kWord;
    case 'M': return kMark | kWord;
    case 'N': return addition.category[1] == 'd' ? kNumber | kNumeric | kWord : kNumber | kNumeric;
    case 'P': return kPunctuation;
    default: return 0;
  }
}

std::vector<uint8_t> build_table() {
  std::vector<uint8_t> table(kTableSize);
  for (char32_t c = 0; c < kTableSize; ++c) {
    table[c] = classes_of_category(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
  }
  for (const UnicodeAddition& addition : unicode_additions()) {
    for (char32_t c = addition.first; c <= addition.last; ++c) table[c] = classes_of_addition(addition);
  }
  for (const auto& [first, last] : kAlphabeticSymbols) {
    for (char32_t c = first; c <= last; ++c) table[c] |= kWord;
  }
  for (const auto& [first, last] : kLateNumerics) {
    for (char32_t c = first; c <= last; ++c) table[c] |= kNumeric;
  }
  for (char32_t c = 0x09; c <= 0x0D; ++c) table[c] |= kSpace;
  table[0x85] |= kSpace;
  for (const char c : std::string_view("$+<=>^`|~")) table[static_cast<uint8_t>(c)] |= kPunctuation;
  return table;
}

constexpr std::array<uint8_t, 128> build_ascii() {
  std::array<uint8_t, 128> table{};
  for (uint8_t c = 0; c < 128; ++c) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool lower = c >= 'a' && c <= 'z';
    const bool digit = c >= '0' && c <= '9';
    if (upper || lower) {
      table[c] = kLetter | kWord;
    } else if (digit) {
      table[c] = kNumber | kNumeric | kWord;
    } else if (c == ' ' || (c >= 9 && c <= 13)) {
      table[c] = kSpace;
    } else if (c > 32 && c < 127) {
      table[c] = c == '_' ? kPunctuation | kWord : kPunctuation;
    }
  }
  return table;
}

// Length of the longest prefix of `bytes` that a character could start with, and whether it is a whole character.
std::pair<size_t, bool> scan_char(std::string_view bytes) {
  const auto at = [&](size_t i) { return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : uint8_t{0}; };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  if (at(1) < low || at(1) > high) return {1, false};
  for (size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return {i, false};
  }
  return {length, true};
}

}  // namespace

const std::array<uint8_t, 128> kAsciiClass = build_ascii();

uint8_t char_class(char32_t code_point) {
  if (code_point < 128) return kAsciiClass[code_point];
  static const std::vector<uint8_t> table = build_table();
  if (code_point < kTableSize) return table[code_point];
  return code_point >= 0xE0100 && code_point <= 0xE01EF ? kMark | kWord : 0;
}

void append_utf8(char32_t code_point, std::string* out) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  for (utf8proc_ssize_t i = 0; i < length; ++i) out->push_back(static_cast<char>(bytes[static_cast<size_t>(i)]));
}

bool is_valid_utf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const auto [length, whole] = scan_char(bytes.substr(i));
    if (whole) {
      out.append(bytes.substr(i, length));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    i += length;
  }
  return out;
}

}  // namespace litespark::token
