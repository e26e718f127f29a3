// SPDX-License-Identifier: Apache-2.0
// The IEEE half storage type: 16 bits, converted with round-to-nearest-even. Arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

namespace litespark {

struct fp16 {
  uint16_t bits = 0;
};

/// Exact: every half is a float.
inline float to_float(fp16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide_exponent = exponent == 0x1fu ? 0xffu : exponent + 112u;
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (fraction << 13));
}

/// Rounds to nearest, ties to even; 65,520 and more become infinite, subnormals are kept, NaN stays NaN.
inline fp16 to_fp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const auto with_sign = [&](uint32_t word) { return fp16{static_cast<uint16_t>(sign | word)}; };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14 there are steps of 2^-24, which are the last places of numbers from 0.5 to 1.
    return with_sign(std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u);
  }
  const uint32_t rounded = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  return with_sign(rounded < 0x7c00u ? rounded : 0x7c00u);
}

}  // namespace litespark
