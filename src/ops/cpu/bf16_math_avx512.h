// SPDX-License-Identifier: Apache-2.0
// Tile products in bf16 for AVX512_BF16: two terms of a sum lie side by side in a lane. See tile_product.h.
#pragma once

#include "ops/cpu/vec16_avx512.h"

namespace litespark::cpu {
#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // g++, clang
namespace amx {
#else
namespace avx512bf16 {
#endif

struct Bf16Math {
  using Vec = Vec16;
  using Element = bf16;
  using Operand = __m512bh;
  static constexpr bool kMultipliesTiles = false;
  static constexpr int kMaxVecs = 4;
  static constexpr int kPair = 2;
  static constexpr int kExpDegree = 5;  ///< 1e-7: results are rounded to bf16

  static Operand load(const Element* from) { return (__m512bh)_mm512_loadu_si512(from); }
  static Operand broadcast(const Element* from) {
    int32_t pair;
    __builtin_memcpy(&pair, from, sizeof(pair));
    return (__m512bh)_mm512_set1_epi32(pair);
  }
  static Vec multiply_add(Operand a, Operand b, Vec sum) { return {_mm512_dpbf16_ps(sum.all, a, b)}; }
  static void store(Vec values, Element* to) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(values.all));
  }
  /// [16, 2]: lane i of `first`, then lane i of `second`.
  static void store_pairs(Vec first, Vec second, Element* to) {
    // One row at a time, since the backward pass wants the rounded rows as well.
    store_interleaved((__m256i)_mm512_cvtneps_pbh(first.all), (__m256i)_mm512_cvtneps_pbh(second.all), to);
  }
  /// [16, 2]: element i of `first`, then element i of `second`.
  static void interleave(const Element* first, const Element* second, Element* to) {
    store_interleaved(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first)),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second)), to);
  }

 private:
  static void store_interleaved(__m256i first, __m256i second, Element* to) {
    const __m512i order = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                                           37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    _mm512_storeu_si512(
        to, _mm512_permutex2var_epi16(_mm512_castsi256_si512(first), order, _mm512_castsi256_si512(second)));
  }
};

}  // namespace of the instruction set
}  // namespace litespark::cpu
