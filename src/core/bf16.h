// SPDX-License-Identifier: Apache-2.0
// The bfloat16 storage type: 16 bits, converted with round-to-nearest-even. Arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

namespace litespark {

struct bf16 {
  uint16_t bits = 0;
};

/// Exact: every bf16 value is a float.
inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

/// Rounds to nearest, ties to even. NaN stays NaN (quiet bit set, payload's high bits kept); denormals are kept.
inline bf16 to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  }
  const uint32_t rounding = 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<uint16_t>((bits + rounding) >> 16)};
}

}  // namespace litespark
