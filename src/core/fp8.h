// SPDX-License-Identifier: Apache-2.0
// The two 8-bit float formats (Micikevicius et al. 2022): e4m3 has no infinity and ends at 448, e5m2 is the upper half
// of an fp16 and ends at 57,344. Storage only, converted with round-to-nearest-even and saturation; arithmetic happens
// in float. Also the scale that brings a tensor into a format's range.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "core/dtype.h"

namespace litespark {

constexpr bool is_fp8(DType dtype) {
  return dtype == DType::kE4M3 || dtype == DType::kE5M2;
}

/// Largest finite value of a format.
constexpr float fp8_largest(DType format) {
  return format == DType::kE5M2 ? 57344.0f : 448.0f;
}

/// Values other than 0 up to this magnitude become 0: half of the smallest subnormal, a tie that goes to even.
constexpr float fp8_flushed_below(DType format) {
  return format == DType::kE5M2 ? 0x1p-17f : 0x1p-10f;
}

namespace fp8_detail {

/// kMantissa bits of mantissa, exponents biased by kBias; codes above `largest_code` are special.
template <int kMantissa, int kBias>
constexpr uint8_t encoded(float value, float largest, uint8_t nan_code) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80u);
  if (magnitude > 0x7f800000u) return nan_code;
  const uint32_t largest_bits = std::bit_cast<uint32_t>(largest);
  const uint32_t clipped = magnitude < largest_bits ? magnitude : largest_bits;
  constexpr int kDropped = 23 - kMantissa;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(127 + 1 - kBias) << 23;
  if (clipped < kSmallestNormal) {
    // Added to this number a float's last bit is worth one subnormal step, so that the addition does the rounding.
    constexpr float kAligner = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - kMantissa + 23) << 23);
    const float sum = std::bit_cast<float>(clipped) + kAligner;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(kAligner)));
  }
  const uint32_t rounding = ((uint32_t{1} << (kDropped - 1)) - 1) + ((clipped >> kDropped) & 1u);
  const uint32_t code = ((clipped + rounding) >> kDropped) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
  return static_cast<uint8_t>(sign | code);
}

}  // namespace fp8_detail

/// The code of the nearest value, ties to even; beyond the largest and for infinity the largest; NaN stays NaN.
constexpr uint8_t to_fp8(DType format, float value) {
  return format == DType::kE5M2 ? fp8_detail::encoded<2, 15>(value, 57344.0f, 0x7f)
                                : fp8_detail::encoded<3, 7>(value, 448.0f, 0x7f);
}

/// Exact.
constexpr float fp8_to_float(DType format, uint8_t code) {
  const bool wide = format == DType::kE5M2;
  const int mantissa_bits = wide ? 2 : 3;
  const int bias = wide ? 15 : 7;
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  if (!wide && (code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  if (wide && exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 21));
  if (exponent == 0) {
    const float step = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - bias - mantissa_bits) << 23);
    return (sign != 0 ? -1.0f : 1.0f) * static_cast<float>(mantissa) * step;
  }
  return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent - bias + 127) << 23 |
                              mantissa << (23 - mantissa_bits));
}

/// What values are multiplied by before they are rounded to 8 bits, and what their products are multiplied by after.
struct Fp8Scale {
  float quantise = 1;
  float dequantise = 1;
};

/// Brings `abs_max` to the format's largest value. A tensor with Inf or NaN gets NaN to be multiplied by afterwards:
/// what is made of it is NaN, as it would be without the 8 bits, and the step is skipped.
constexpr Fp8Scale fp8_scale(float abs_max, DType format) {
  constexpr float kSmallest = 0x1p-100f;  // both factors stay normal floats
  if (!(abs_max <= std::numeric_limits<float>::max())) return {1.0f, std::numeric_limits<float>::quiet_NaN()};
  const float bounded = abs_max < kSmallest ? kSmallest : abs_max;
  return {fp8_largest(format) / bounded, bounded / fp8_largest(format)};
}

}  // namespace litespark
