// SPDX-License-Identifier: Apache-2.0
#include "core/utf8.h"

#include <cstdint>

namespace litespark {
namespace {

/// What may follow the first byte of a character.
struct Sequence {
  size_t length = 0;       ///< of the whole character; 0: the byte begins none
  uint8_t least = 0x80;    ///< of the second byte
  uint8_t largest = 0xBF;  ///< of the second byte
};

Sequence sequence_of(uint8_t lead) {
  if (lead < 0x80) return {.length = 1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) return {.length = 2};
  if (lead == 0xE0) return {.length = 3, .least = 0xA0};
  if (lead == 0xED) return {.length = 3, .largest = 0x9F};
  if (lead < 0xF0) return {.length = 3};
  if (lead == 0xF0) return {.length = 4, .least = 0x90};
  if (lead < 0xF4) return {.length = 4};
  return lead == 0xF4 ? Sequence{.length = 4, .largest = 0x8F} : Sequence{};
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Sequence sequence = sequence_of(static_cast<uint8_t>(text[0]));
    if (sequence.length == 0 || sequence.length > text.size()) return false;
    for (size_t i = 1; i < sequence.length; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      if (byte < (i == 1 ? sequence.least : 0x80) || byte > (i == 1 ? sequence.largest : 0xBF)) return false;
    }
    text.remove_prefix(sequence.length);
  }
  return true;
}

}  // namespace litespark
