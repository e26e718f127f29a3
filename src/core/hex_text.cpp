// SPDX-License-Identifier: Apache-2.0
#include "core/hex_text.h"

namespace litespark {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

}  // namespace

std::string hex_text(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15u];
  }
  return text;
}

std::string hex_text(uint64_t word) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(word >> shift) & 15u];
  return text;
}

}  // namespace litespark
