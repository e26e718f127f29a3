// SPDX-License-Identifier: Apache-2.0
// Attention kernels for AVX-512 with bf16 dot products: operands stay bf16, two terms of a sum side by side in a lane.
#include "ops/cpu/attention_backward_tile.h"
#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/vec16_avx512.h"

namespace litespark::cpu {
namespace {

struct Bf16Math {
  using Vec = avx512bf16::Vec16;
  using Element = bf16;
  using Operand = __m512bh;
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
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(second.all, first.all);
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(order, both));
  }
};

}  // namespace

AttentionKernels attention_kernels_avx512bf16() {
  return {.forward = attention_forward<Bf16Math, bf16>,
          .backward = attention_backward<Bf16Math, bf16>,
          .row = attention_row<Bf16Math, bf16>,
          .bf16_elements = true};
}

}  // namespace litespark::cpu
