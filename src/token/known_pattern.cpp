// SPDX-License-Identifier: Apache-2.0
// The scanners follow their pattern's alternatives in order; each comment quotes the alternative it implements.
#include "token/known_pattern.h"

#include <array>
#include <utility>

#include "token/unicode.h"

namespace litespark::token {
namespace {

struct Symbol {
  uint8_t classes = 0;
  uint32_t length = 0;  // 0 past the end
  char32_t code_point = 0;
};

inline Symbol symbol_at(std::string_view text, size_t position) {
  if (position >= text.size()) return {};
  const auto lead = static_cast<uint8_t>(text[position]);
  if (lead < 0x80) return {kAsciiClass[lead], 1, lead};
  const DecodedChar c = decode_char(text, position);
  return {char_class(c.code_point), c.length, c.code_point};
}

inline bool is_letter(const Symbol& s) {
  return (s.classes & kLetter) != 0;
}
inline bool is_number(const Symbol& s) {
  return (s.classes & kNumber) != 0;
}
inline bool is_space(const Symbol& s) {
  return (s.classes & kSpace) != 0;
}
inline bool is_other(const Symbol& s) {
  return s.length != 0 && (s.classes & (kSpace | kLetter | kNumber)) == 0;
}
inline bool is_newline(const Symbol& s) {
  return s.code_point == '\n' || s.code_point == '\r';
}

size_t letters_end(std::string_view text, size_t position) {
  while (true) {
    while (position < text.size() && static_cast<uint8_t>(text[position]) < 0x80) {
      if ((kAsciiClass[static_cast<uint8_t>(text[position])] & kLetter) == 0) return position;
      ++position;
    }
    const Symbol s = symbol_at(text, position);
    if (!is_letter(s)) return position;
    position += s.length;
  }
}

size_t numbers_end(std::string_view text, size_t position, size_t most) {
  for (size_t count = 0; count < most; ++count) {
    const Symbol s = symbol_at(text, position);
    if (!is_number(s)) break;
    position += s.length;
  }
  return position;
}

size_t others_end(std::string_view text, size_t position) {
  for (Symbol s = symbol_at(text, position); is_other(s); s = symbol_at(text, position)) position += s.length;
  return position;
}

struct SpaceRun {
  size_t end = 0;
  size_t last_begin = 0;          // start of its last character
  size_t after_last_newline = 0;  // 0: no newline in it
};

SpaceRun space_run(std::string_view text, size_t begin) {
  SpaceRun run{begin, begin, 0};
  for (Symbol s = symbol_at(text, begin); is_space(s); s = symbol_at(text, run.end)) {
    run.last_begin = run.end;
    run.end += s.length;
    if (is_newline(s)) run.after_last_newline = run.end;
  }
  return run;
}

// \s+(?!\S)|\s+ : all of a run at the end of the text, else all but its last character, else that one.
size_t spaces_end(std::string_view text, size_t begin, const SpaceRun& run) {
  if (run.end == text.size() || run.last_begin == begin) return run.end;
  return run.last_begin;
}

// 's|'t|'re|'ve|'m|'ll|'d after the apostrophe at `begin`; 0: none. Case folding also makes U+017F an s.
size_t contraction_end(std::string_view text, size_t begin, bool ignore_case) {
  const auto at = [&](size_t offset) {
    const char c = begin + offset < text.size() ? text[begin + offset] : '\0';
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = at(1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return begin + 2;
  const char second = at(2);
  if ((first == 'r' || first == 'v') && second == 'e') return begin + 3;
  if (first == 'l' && second == 'l') return begin + 3;
  if (ignore_case && text.substr(begin + 1, 2) == "\xC5\xBF") return begin + 3;
  return 0;
}

size_t gpt2_end(std::string_view text, size_t begin) {
  const Symbol first = symbol_at(text, begin);
  if (first.code_point == '\'') {
    if (const size_t end = contraction_end(text, begin, false)) return end;
  }
  // " ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+"
  const size_t body = first.code_point == ' ' ? begin + 1 : begin;
  const Symbol s = body == begin ? first : symbol_at(text, body);
  if (is_letter(s)) return letters_end(text, body + s.length);
  if (is_number(s)) return numbers_end(text, body + s.length, text.size());
  if (is_other(s)) return others_end(text, body + s.length);
  return spaces_end(text, begin, space_run(text, begin));
}

size_t llama3_end(std::string_view text, size_t begin, size_t most_digits) {
  const Symbol first = symbol_at(text, begin);
  if (is_letter(first)) return letters_end(text, begin + first.length);
  if (is_number(first)) return numbers_end(text, begin + first.length, most_digits - 1);
  if (first.code_point == '\'') {
    if (const size_t end = contraction_end(text, begin, true)) return end;
  }
  // "[^\r\n\p{L}\p{N}]?\p{L}+"
  const size_t second_begin = begin + first.length;
  const Symbol second = symbol_at(text, second_begin);
  if (!is_newline(first) && is_letter(second)) return letters_end(text, second_begin + second.length);
  // " ?[^\s\p{L}\p{N}]+[\r\n]*"
  const bool spaced = first.code_point == ' ' && is_other(second);
  if (spaced || is_other(first)) {
    size_t end = others_end(text, second_begin);
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end;
  }
  // "\s*[\r\n]+|\s+(?!\S)|\s+"
  const SpaceRun run = space_run(text, begin);
  if (run.after_last_newline != 0) return run.after_last_newline;
  return spaces_end(text, begin, run);
}

}  // namespace

std::optional<KnownPattern> find_known_pattern(std::string_view pattern) {
  constexpr std::array<std::pair<std::string_view, KnownPattern>, 3> kPatterns = {
      {{kGpt2Pattern, KnownPattern::kGpt2},
       {kLlama3Pattern, KnownPattern::kLlama3},
       {kQwenPattern, KnownPattern::kQwen}}};
  for (const auto& [text, known] : kPatterns) {
    if (text == pattern) return known;
  }
  return std::nullopt;
}

size_t next_word_end(KnownPattern pattern, std::string_view text, size_t begin) {
  switch (pattern) {
    case KnownPattern::kGpt2: return gpt2_end(text, begin);
    case KnownPattern::kLlama3: return llama3_end(text, begin, 3);
    case KnownPattern::kQwen: return llama3_end(text, begin, 1);
  }
  return text.size();
}

}  // namespace litespark::token
