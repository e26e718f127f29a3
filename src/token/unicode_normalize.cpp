// SPDX-License-Identifier: Apache-2.0
// A character is inert in NFC when it is a starter, composed, and no second half of a composition. Only the stretches
// between inert characters are handed to utf8proc.
#include "token/unicode_normalize.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/error.h"
#include "token/unicode.h"

namespace litespark::token {
namespace {

constexpr char32_t kFirstActive = 0x300;  // every character below is inert in NFC
constexpr char32_t kTableEnd = 0x30000;
constexpr utf8proc_uint16_t kNoSequence = UINT16_MAX;

void normalize_into(std::string_view text, int form, std::string* out) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(form | UTF8PROC_STABLE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (size < 0) {
    throw DataError("unicode normalization", "failed", utf8proc_errmsg(size), "valid UTF-8 and enough memory");
  }
  out->append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
}

std::vector<bool> build_active() {
  std::vector<bool> active(kTableEnd);
  for (char32_t c = kFirstActive; c < kTableEnd; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    if (property->combining_class != 0) active[c] = true;
    if (property->decomp_seqindex == kNoSequence || property->decomp_type != 0) continue;
    std::array<utf8proc_int32_t, 8> parts{};
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), UTF8PROC_DECOMPOSE, &boundary);
    const auto last = static_cast<char32_t>(parts[static_cast<size_t>(count) - 1]);
    if (count > 1 && last < kTableEnd) active[last] = true;
    std::string self;
    append_utf8(c, &self);
    std::string composed;
    normalize_into(self, UTF8PROC_COMPOSE, &composed);
    if (composed != self) active[c] = true;
  }
  for (char32_t c = 0x1161; c <= 0x1175; ++c) active[c] = true;  // Hangul vowels and final consonants
  for (char32_t c = 0x11A8; c <= 0x11C2; ++c) active[c] = true;
  return active;
}

bool is_active(char32_t c) {
  if (c < kFirstActive) return false;
  static const std::vector<bool> active = build_active();
  return c >= kTableEnd || active[c];
}

// First position from `begin` on where an NFC-active character starts.
size_t find_active(std::string_view text, size_t begin) {
  size_t i = begin;
  while (i < text.size()) {
    if (static_cast<uint8_t>(text[i]) < 0xCC) {  // characters below U+0300
      ++i;
      continue;
    }
    const DecodedChar c = decode_char(text, i);
    if (is_active(c.code_point)) return i;
    i += c.length;
  }
  return text.size();
}

std::string_view to_nfc(std::string_view text, std::string* buffer) {
  size_t active = find_active(text, 0);
  if (active == text.size()) return text;
  buffer->clear();
  size_t copied = 0;
  while (active < text.size()) {
    const size_t begin = active > copied ? previous_char(text, active) : copied;
    size_t end = active;
    while (end < text.size()) {
      const DecodedChar c = decode_char(text, end);
      if (!is_active(c.code_point)) break;
      end += c.length;
    }
    buffer->append(text.substr(copied, begin - copied));
    normalize_into(text.substr(begin, end - begin), UTF8PROC_COMPOSE, buffer);
    copied = end;
    active = find_active(text, end);
  }
  buffer->append(text.substr(copied));
  return *buffer;
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) return false;
  }
  return true;
}

int options_of(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc: return UTF8PROC_COMPOSE;
    case NormalForm::kNfd: return UTF8PROC_DECOMPOSE;
    case NormalForm::kNfkc: return UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::kNfkd: return UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

}  // namespace

std::string_view to_normal_form(NormalForm form, std::string_view text, std::string* buffer) {
  if (form == NormalForm::kNfc) return to_nfc(text, buffer);
  if (is_ascii(text)) return text;
  buffer->clear();
  normalize_into(text, options_of(form), buffer);
  return *buffer;
}

}  // namespace litespark::token
