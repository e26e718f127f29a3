// SPDX-License-Identifier: Apache-2.0
// Sixteen float lanes as an array, for processors without AVX2. Same names as vec16_avx2.h and vec16_avx512.h; the
// loops are the specification of what those compute, but for fma, which rounds twice here.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/bf16.h"

namespace litespark::cpu::generic {

struct Mask16 {
  bool lane[16];
};

struct Vec16 {
  using Mask = Mask16;
  float lane[16];

  static Vec16 zero() { return broadcast(0.0f); }
  static Vec16 broadcast(float value) {
    Vec16 result;
    for (float& lane : result.lane) lane = value;
    return result;
  }
  /// 0, 1, ... 15.
  static Vec16 iota() {
    Vec16 result;
    for (int i = 0; i < 16; ++i) result.lane[i] = static_cast<float>(i);
    return result;
  }
  static Vec16 load(const float* from) {
    Vec16 result;
    for (int i = 0; i < 16; ++i) result.lane[i] = from[i];
    return result;
  }
  static Vec16 load(const bf16* from) {
    Vec16 result;
    for (int i = 0; i < 16; ++i) result.lane[i] = to_float(from[i]);
    return result;
  }

  /// The 16 x 16 block at `from`, transposed to `to`; strides in floats.
  static void transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride);

  void store(float* to) const {
    for (int i = 0; i < 16; ++i) to[i] = lane[i];
  }
  /// Rounds to nearest even.
  void store(bf16* to) const {
    for (int i = 0; i < 16; ++i) to[i] = to_bf16(lane[i]);
  }
};

/// Applies a scalar function to every lane.
template <class Function>
Vec16 each_lane(Vec16 a, Vec16 b, const Function& function) {
  Vec16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = function(a.lane[i], b.lane[i]);
  return result;
}

inline Vec16 operator+(Vec16 a, Vec16 b) {
  return each_lane(a, b, [](float x, float y) { return x + y; });
}
inline Vec16 operator-(Vec16 a, Vec16 b) {
  return each_lane(a, b, [](float x, float y) { return x - y; });
}
inline Vec16 operator*(Vec16 a, Vec16 b) {
  return each_lane(a, b, [](float x, float y) { return x * y; });
}
inline Vec16 operator/(Vec16 a, Vec16 b) {
  return each_lane(a, b, [](float x, float y) { return x / y; });
}
/// a * b + c.
inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) {
  return a * b + c;
}
/// c - a * b.
inline Vec16 negative_fma(Vec16 a, Vec16 b, Vec16 c) {
  return c - a * b;
}
/// `b` where either is NaN.
inline Vec16 max(Vec16 a, Vec16 b) {
  return each_lane(a, b, [](float x, float y) { return x > y ? x : y; });
}
/// `b` where either is NaN.
inline Vec16 min(Vec16 a, Vec16 b) {
  return each_lane(a, b, [](float x, float y) { return x < y ? x : y; });
}
inline Vec16 sqrt(Vec16 a) {
  return each_lane(a, a, [](float x, float) { return std::sqrt(x); });
}
/// To the nearest integer, ties to even; for |a| < 2^22.
inline Vec16 round(Vec16 a) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: what is added here loses its fraction
  return each_lane(a, a, [](float x, float) { return (x + kShift) - kShift; });
}
/// a * 2^n for integers n, as long as a and the result are normal numbers.
inline Vec16 times_power_of_two(Vec16 a, Vec16 n) {
  return each_lane(a, n, [](float x, float exponent) {
    const bool usable = exponent >= -256.0f && exponent <= 256.0f;  // not so for NaN
    const int32_t shift = usable ? static_cast<int32_t>(exponent) : 0;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(x) + (static_cast<uint32_t>(shift) << 23));
  });
}
/// False where either is NaN.
inline Mask16 less(Vec16 a, Vec16 b) {
  Mask16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = a.lane[i] < b.lane[i];
  return result;
}
inline Mask16 both(Mask16 a, Mask16 b) {
  Mask16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = a.lane[i] && b.lane[i];
  return result;
}
/// `a` where the mask is set, else `b`.
inline Vec16 select(Mask16 mask, Vec16 a, Vec16 b) {
  Vec16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = mask.lane[i] ? a.lane[i] : b.lane[i];
  return result;
}
/// Lanes i and i + 8 first, then + 4, + 2, + 1.
inline float sum(Vec16 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.lane[i] += a.lane[i + width];
  }
  return a.lane[0];
}
inline float largest(Vec16 a) {
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a.lane[i] = a.lane[i] > a.lane[i + width] ? a.lane[i] : a.lane[i + width];
  }
  return a.lane[0];
}

inline void Vec16::transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

}  // namespace litespark::cpu::generic
