// SPDX-License-Identifier: Apache-2.0
#include "token/normalizer.h"

#include <utf8proc.h>

#include <array>
#include <optional>
#include <utility>

#include "core/error.h"
#include "token/byte_alphabet.h"
#include "token/regex.h"
#include "token/unicode.h"
#include "token/unicode_normalize.h"

namespace litespark::token {
namespace {

using Kind = NormalizerSpec::Kind;

// Capitals that Unicode 16 and 17 added, which utf8proc may not know: first, last, distance to their small letters.
struct LateCapitals {
  int32_t first;
  int32_t last;
  int32_t distance;
};
constexpr std::array<LateCapitals, 10> kLateCapitals = {{{0x1C89, 0x1C89, 1},
                                                         {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
                                                         {0xA7CC, 0xA7CC, 1},
                                                         {0xA7CE, 0xA7CE, 1},
                                                         {0xA7D2, 0xA7D2, 1},
                                                         {0xA7D4, 0xA7D4, 1},
                                                         {0xA7DA, 0xA7DA, 1},
                                                         {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
                                                         {0x10D50, 0x10D65, 0x20},
                                                         {0x16EA0, 0x16EB8, 0x1B}}};

char32_t small_letter(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  const auto code_point = static_cast<int32_t>(c);
  for (const LateCapitals& capitals : kLateCapitals) {
    if (code_point >= capitals.first && code_point <= capitals.last) {
      return static_cast<char32_t>(code_point + capitals.distance);
    }
  }
  return static_cast<char32_t>(utf8proc_tolower(code_point));
}

std::string_view lowercase(std::string_view text, std::string* buffer) {
  buffer->clear();
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_char(text, i);
    if (c.code_point == 0x130) {
      buffer->append("i\xCC\x87");  // the only character whose lower case is two
    } else {
      append_utf8(small_letter(c.code_point), buffer);
    }
    i += c.length;
  }
  return *buffer;
}

std::string_view strip(const NormalizerSpec& spec, std::string_view text, bool* keeps_start) {
  const auto is_space_at = [&](size_t i) { return (char_class(decode_char(text, i).code_point) & kSpace) != 0; };
  while (spec.strip_left && !text.empty() && is_space_at(0)) {
    text.remove_prefix(char_length(text[0]));
    *keeps_start = false;
  }
  while (spec.strip_right && !text.empty() && is_space_at(previous_char(text, text.size()))) {
    text = text.substr(0, previous_char(text, text.size()));
  }
  return text;
}

std::string_view strip_accents(std::string_view text, std::string* buffer, bool* keeps_start) {
  buffer->clear();
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_char(text, i);
    const bool is_mark = (char_class(c.code_point) & kMark) != 0;
    if (is_mark && buffer->empty()) *keeps_start = false;
    if (!is_mark) buffer->append(text.substr(i, c.length));
    i += c.length;
  }
  return *buffer;
}

std::string_view replace_literal(const NormalizerSpec& spec, std::string_view text, std::string* buffer,
                                 bool* keeps_start) {
  const std::string& pattern = spec.pattern.text;
  size_t found = text.find(pattern);
  if (found == std::string_view::npos) return text;
  if (found == 0 && (spec.content.empty() || char_length(pattern[0]) < pattern.size())) *keeps_start = false;
  buffer->clear();
  size_t copied = 0;
  for (; found != std::string_view::npos; found = text.find(pattern, copied)) {
    buffer->append(text.substr(copied, found - copied));
    buffer->append(spec.content);
    copied = found + pattern.size();
  }
  buffer->append(text.substr(copied));
  return *buffer;
}

std::string_view replace_regex(const Regex& regex, const NormalizerSpec& spec, std::string_view text,
                               std::string* buffer, bool* keeps_start) {
  buffer->clear();
  size_t copied = 0;
  regex.for_each_match(text, [&](TextRange match) {
    const bool is_one_char = match.end > match.begin && match.end - match.begin == char_length(text[match.begin]);
    if (match.begin == 0 && match.end > 0 && (spec.content.empty() || !is_one_char)) *keeps_start = false;
    buffer->append(text.substr(copied, match.begin - copied));
    buffer->append(spec.content);
    copied = match.end;
  });
  buffer->append(text.substr(copied));
  return *buffer;
}

}  // namespace

struct Normalizer::Step {
  NormalizerSpec spec;
  std::optional<Regex> regex;

  std::string_view apply(std::string_view text, std::string* buffer, bool* keeps_start) const {
    switch (spec.kind) {
      case Kind::kNfc: return to_normal_form(NormalForm::kNfc, text, buffer);
      case Kind::kNfd: return to_normal_form(NormalForm::kNfd, text, buffer);
      case Kind::kNfkc: return to_normal_form(NormalForm::kNfkc, text, buffer);
      case Kind::kNfkd: return to_normal_form(NormalForm::kNfkd, text, buffer);
      case Kind::kLowercase: return lowercase(text, buffer);
      case Kind::kStrip: return strip(spec, text, keeps_start);
      case Kind::kStripAccents: return strip_accents(text, buffer, keeps_start);
      case Kind::kPrepend:
        if (text.empty()) return text;
        buffer->assign(spec.content).append(text);
        return *buffer;
      case Kind::kReplace:
        return regex ? replace_regex(*regex, spec, text, buffer, keeps_start)
                     : replace_literal(spec, text, buffer, keeps_start);
      case Kind::kByteLevel:
        buffer->clear();
        append_byte_chars(text, buffer);
        return *buffer;
    }
    throw InternalError("Normalizer", "unknown kind", static_cast<int>(spec.kind), "a NormalizerSpec::Kind");
  }
};

Normalizer::Normalizer(const std::vector<NormalizerSpec>& specs) {
  for (const NormalizerSpec& spec : specs) {
    auto step = std::make_unique<Step>();
    step->spec = spec;
    if (spec.kind == Kind::kReplace && spec.pattern.is_regex) step->regex.emplace(spec.pattern);
    if (spec.kind == Kind::kReplace && spec.pattern.text.empty()) {
      throw DataError("normalizer Replace", "has an empty pattern", "\"\"", "a pattern");
    }
    steps_.push_back(std::move(step));
  }
}

Normalizer::~Normalizer() = default;
Normalizer::Normalizer(Normalizer&&) noexcept = default;
Normalizer& Normalizer::operator=(Normalizer&&) noexcept = default;

std::string_view Normalizer::apply(std::string_view text, std::string* buffer, bool* keeps_start) const {
  std::string other;
  for (const auto& step : steps_) {
    const std::string_view result = step->apply(text, &other, keeps_start);
    if (result.data() == other.data()) {
      std::swap(*buffer, other);
      text = std::string_view(*buffer).substr(0, result.size());
    } else {
      text = result;
    }
  }
  return text;
}

}  // namespace litespark::token
