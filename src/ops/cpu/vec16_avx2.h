// SPDX-License-Identifier: Apache-2.0
// Sixteen float lanes as two AVX2 registers. Same names and same order of sums as vec16_avx512.h and vec16_generic.h.
// Only for sources named *_avx2.cpp: everything is inline in this instruction set's own namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/bf16.h"

namespace litespark::cpu::avx2 {

struct Mask16 {
  __m256 lo, hi;
};

namespace detail {
inline __m256 load_half(const bf16* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
/// The upper 16 bits after rounding to nearest even, as 32-bit lanes; NaN stays NaN.
inline __m256i rounded_bits(__m256 value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan)), 16);
}
}  // namespace detail

struct Vec16 {
  using Mask = Mask16;
  __m256 lo, hi;

  static Vec16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec16 broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  /// 0, 1, ... 15.
  static Vec16 iota() { return {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)}; }
  static Vec16 load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static Vec16 load(const bf16* from) { return {detail::load_half(from), detail::load_half(from + 8)}; }

  /// The 16 x 16 block at `from`, transposed to `to`; strides in floats.
  static void transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride);

  void store(float* to) const {
    _mm256_storeu_ps(to, lo);
    _mm256_storeu_ps(to + 8, hi);
  }
  /// Rounds to nearest even.
  void store(bf16* to) const {
    const __m256i packed = _mm256_packus_epi32(detail::rounded_bits(lo), detail::rounded_bits(hi));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xd8));
  }
};

inline Vec16 operator+(Vec16 a, Vec16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
inline Vec16 operator-(Vec16 a, Vec16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
inline Vec16 operator*(Vec16 a, Vec16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
inline Vec16 operator/(Vec16 a, Vec16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
/// a * b + c, rounded once.
inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
/// c - a * b, rounded once.
inline Vec16 negative_fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
/// `b` where either is NaN.
inline Vec16 max(Vec16 a, Vec16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
/// `b` where either is NaN.
inline Vec16 min(Vec16 a, Vec16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
inline Vec16 sqrt(Vec16 a) {
  return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
/// To the nearest integer, ties to even.
inline Vec16 round(Vec16 a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kNearest), _mm256_round_ps(a.hi, kNearest)};
}
/// a * 2^n for integers n, as long as a and the result are normal numbers.
inline Vec16 times_power_of_two(Vec16 a, Vec16 n) {
  const auto add_exponent = [](__m256 value, __m256 exponent) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(value), _mm256_slli_epi32(_mm256_cvtps_epi32(exponent), 23)));
  };
  return {add_exponent(a.lo, n.lo), add_exponent(a.hi, n.hi)};
}
/// False where either is NaN.
inline Mask16 less(Vec16 a, Vec16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
inline Mask16 both(Mask16 a, Mask16 b) {
  return {_mm256_and_ps(a.lo, b.lo), _mm256_and_ps(a.hi, b.hi)};
}
/// `a` where the mask is set, else `b`.
inline Vec16 select(Mask16 mask, Vec16 a, Vec16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, mask.lo), _mm256_blendv_ps(b.hi, a.hi, mask.hi)};
}
/// Lanes i and i + 8 first, then + 4, + 2, + 1.
inline float sum(Vec16 a) {
  const __m256 eight = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Vec16 a) {
  const __m256 eight = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

namespace detail {
inline void transpose8(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  __m256 row[8], pair[8], quad[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) row[i] = _mm256_loadu_ps(from + i * from_stride);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    pair[2 * i] = _mm256_unpacklo_ps(row[2 * i], row[2 * i + 1]);
    pair[2 * i + 1] = _mm256_unpackhi_ps(row[2 * i], row[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const int at = 4 * i;
    quad[at] = _mm256_shuffle_ps(pair[at], pair[at + 2], 0x44);
    quad[at + 1] = _mm256_shuffle_ps(pair[at], pair[at + 2], 0xee);
    quad[at + 2] = _mm256_shuffle_ps(pair[at + 1], pair[at + 3], 0x44);
    quad[at + 3] = _mm256_shuffle_ps(pair[at + 1], pair[at + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
  }
}
}  // namespace detail

inline void Vec16::transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  for (int i = 0; i < 16; i += 8) {
    for (int j = 0; j < 16; j += 8) {
      detail::transpose8(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
    }
  }
}

}  // namespace litespark::cpu::avx2
