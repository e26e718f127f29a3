// SPDX-License-Identifier: Apache-2.0
// Sixteen float lanes as one AVX-512 register. Same names and same order of sums as vec16_avx2.h and vec16_generic.h.
// Only for sources named *_avx512.cpp, *_avx512bf16.cpp and *_amx.cpp; they differ in flags, so each has a namespace of
// its own.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/bf16.h"

namespace litespark::cpu {
#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // g++, clang
namespace amx {
#elif defined(__AVX512BF16__)
namespace avx512bf16 {
#else
namespace avx512 {
#endif

struct Mask16 {
  __mmask16 bits;
};

struct Vec16 {
  using Mask = Mask16;
  __m512 all;

  static Vec16 zero() { return {_mm512_setzero_ps()}; }
  static Vec16 broadcast(float value) { return {_mm512_set1_ps(value)}; }
  /// 0, 1, ... 15.
  static Vec16 iota() { return {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
  static Vec16 load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Vec16 load(const bf16* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }

  /// The 16 x 16 block at `from`, transposed to `to`; strides in floats.
  static void transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride);

  void store(float* to) const { _mm512_storeu_ps(to, all); }
  /// Rounds to nearest even, denormals too, which the instruction for it would flush.
  void store(bf16* to) const {
#ifdef __AVX512BF16__
    constexpr int kIsDenormal = 0x20;
    if (_mm512_fpclass_ps_mask(all, kIsDenormal) == 0) [[likely]] {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(all));
      return;
    }
#endif
    const __m512i bits = _mm512_castps_si512(all);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(all, all, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16)));
  }
};

inline Vec16 operator+(Vec16 a, Vec16 b) {
  return {_mm512_add_ps(a.all, b.all)};
}
inline Vec16 operator-(Vec16 a, Vec16 b) {
  return {_mm512_sub_ps(a.all, b.all)};
}
inline Vec16 operator*(Vec16 a, Vec16 b) {
  return {_mm512_mul_ps(a.all, b.all)};
}
inline Vec16 operator/(Vec16 a, Vec16 b) {
  return {_mm512_div_ps(a.all, b.all)};
}
/// a * b + c, rounded once.
inline Vec16 fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm512_fmadd_ps(a.all, b.all, c.all)};
}
/// c - a * b, rounded once.
inline Vec16 negative_fma(Vec16 a, Vec16 b, Vec16 c) {
  return {_mm512_fnmadd_ps(a.all, b.all, c.all)};
}
/// `b` where either is NaN.
inline Vec16 max(Vec16 a, Vec16 b) {
  return {_mm512_max_ps(a.all, b.all)};
}
/// `b` where either is NaN.
inline Vec16 min(Vec16 a, Vec16 b) {
  return {_mm512_min_ps(a.all, b.all)};
}
inline Vec16 sqrt(Vec16 a) {
  return {_mm512_sqrt_ps(a.all)};
}
/// To the nearest integer, ties to even.
inline Vec16 round(Vec16 a) {
  return {_mm512_roundscale_ps(a.all, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// a * 2^n for integers n, as long as a and the result are normal numbers.
inline Vec16 times_power_of_two(Vec16 a, Vec16 n) {
  return {_mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(a.all), _mm512_slli_epi32(_mm512_cvtps_epi32(n.all), 23)))};
}
/// False where either is NaN.
inline Mask16 less(Vec16 a, Vec16 b) {
  return {_mm512_cmp_ps_mask(a.all, b.all, _CMP_LT_OQ)};
}
inline Mask16 both(Mask16 a, Mask16 b) {
  return {_kand_mask16(a.bits, b.bits)};
}
/// `a` where the mask is set, else `b`.
inline Vec16 select(Mask16 mask, Vec16 a, Vec16 b) {
  return {_mm512_mask_blend_ps(mask.bits, b.all, a.all)};
}
/// Lanes i and i + 8 first, then + 4, + 2, + 1.
inline float sum(Vec16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.all), _mm512_extractf32x8_ps(a.all, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Vec16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.all), _mm512_extractf32x8_ps(a.all, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline void Vec16::transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  __m512 row[16], pair[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) row[i] = _mm512_loadu_ps(from + i * from_stride);
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pair[i] = _mm512_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm512_unpackhi_ps(row[i], row[i + 1]);
  }
  // row[i + c] then holds, in each 128-bit part p, column 4 p + c of rows i .. i + 3.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    row[i] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0x44);
    row[i + 1] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0xee);
    row[i + 2] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    row[i + 3] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 even_top = _mm512_shuffle_f32x4(row[c], row[c + 4], 0x88);
    const __m512 odd_top = _mm512_shuffle_f32x4(row[c], row[c + 4], 0xdd);
    const __m512 even_bottom = _mm512_shuffle_f32x4(row[c + 8], row[c + 12], 0x88);
    const __m512 odd_bottom = _mm512_shuffle_f32x4(row[c + 8], row[c + 12], 0xdd);
    _mm512_storeu_ps(to + c * to_stride, _mm512_shuffle_f32x4(even_top, even_bottom, 0x88));
    _mm512_storeu_ps(to + (c + 4) * to_stride, _mm512_shuffle_f32x4(odd_top, odd_bottom, 0x88));
    _mm512_storeu_ps(to + (c + 8) * to_stride, _mm512_shuffle_f32x4(even_top, even_bottom, 0xdd));
    _mm512_storeu_ps(to + (c + 12) * to_stride, _mm512_shuffle_f32x4(odd_top, odd_bottom, 0xdd));
  }
}

}  // namespace of the instruction set
}  // namespace litespark::cpu
