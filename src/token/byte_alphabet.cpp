// SPDX-License-Identifier: Apache-2.0
#include "token/byte_alphabet.h"

#include <array>

#include "token/unicode.h"

namespace litespark::token {
namespace {

constexpr size_t kAlphabetEnd = 0x144;
constexpr int16_t kNoByte = -1;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<char32_t, 256> build_chars() {
  std::array<char32_t, 256> chars{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    chars[static_cast<size_t>(byte)] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return chars;
}

constexpr std::array<char32_t, 256> kChars = build_chars();

constexpr std::array<int16_t, kAlphabetEnd> build_bytes() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (int16_t& byte : bytes) byte = kNoByte;
  for (size_t byte = 0; byte < 256; ++byte) bytes[kChars[byte]] = static_cast<int16_t>(byte);
  return bytes;
}

constexpr std::array<int16_t, kAlphabetEnd> kBytes = build_bytes();

}  // namespace

char32_t byte_to_char(uint8_t byte) {
  return kChars[byte];
}

std::optional<uint8_t> char_to_byte(char32_t code_point) {
  if (code_point >= kAlphabetEnd || kBytes[code_point] == kNoByte) return std::nullopt;
  return static_cast<uint8_t>(kBytes[code_point]);
}

void append_byte_chars(std::string_view bytes, std::string* out) {
  for (const char byte : bytes) {
    const char32_t c = kChars[static_cast<uint8_t>(byte)];
    if (c < 0x80) {
      out->push_back(static_cast<char>(c));
    } else {
      out->push_back(static_cast<char>(0xC0 | (c >> 6)));
      out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
    }
  }
}

void append_token_bytes(std::string_view token, std::string* out) {
  const size_t before = out->size();
  for (size_t i = 0; i < token.size();) {
    const DecodedChar c = decode_char(token, i);
    const std::optional<uint8_t> byte = char_to_byte(c.code_point);
    if (!byte) {
      out->resize(before);
      out->append(token);
      return;
    }
    out->push_back(static_cast<char>(*byte));
    i += c.length;
  }
}

}  // namespace litespark::token
