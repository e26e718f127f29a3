// SPDX-License-Identifier: Apache-2.0
// What Bf16Math (ops/cpu/bf16_math_avx512.h) does, without its instructions: bf16 operands in pairs over any vector
// type. The second term of a pair is added first, as the processor does; products of two bf16 are exact in f32.
#pragma once

#include <cstdint>

#include "core/bf16.h"
#include "ops/cpu/matrix_product.h"

namespace litespark::test {

template <class Vec16>
struct PairMath {
  struct Operand {
    Vec16 first, second;
  };
  using Vec = Vec16;
  using Element = bf16;
  static constexpr bool kMultipliesTiles = false;
  static constexpr int kMaxVecs = 4;
  static constexpr int kPair = 2;
  static constexpr int kExpDegree = 5;

  static Operand load(const bf16* from) {
    bf16 first[16];
    bf16 second[16];
    for (int i = 0; i < 16; ++i) {
      first[i] = from[2 * i];
      second[i] = from[2 * i + 1];
    }
    return {Vec::load(first), Vec::load(second)};
  }
  static Operand broadcast(const bf16* from) {
    bf16 pairs[32];
    for (int i = 0; i < 32; ++i) pairs[i] = from[i % 2];
    return load(pairs);
  }
  static Vec multiply_add(const Operand& a, const Operand& b, Vec sum) {
    return fma(a.first, b.first, fma(a.second, b.second, sum));
  }
  static void store(Vec values, bf16* to) { values.store(to); }
  static void store_pairs(Vec first, Vec second, bf16* to) {
    bf16 halves[32];
    first.store(halves);
    second.store(halves + 16);
    interleave(halves, halves + 16, to);
  }
  static void interleave(const bf16* first, const bf16* second, bf16* to) {
    for (int i = 0; i < 16; ++i) {
      to[2 * i] = first[i];
      to[2 * i + 1] = second[i];
    }
  }
};

/// And what a matrix unit does (ops/cpu/tile_math_amx.h): whole products of bf16, one term after another.
template <class Vec16>
struct PlainTileMath : PairMath<Vec16> {
  static constexpr bool kMultipliesTiles = true;

  template <bool kAdd>
  static void multiply_tiles(const cpu::MatrixProduct& product) {
    for (int row = 0; row < product.rows; ++row) {
      for (int column = 0; column < product.columns; ++column) {
        float* const to = product.c + row * product.c_row + column;
        float sum = kAdd ? *to : 0.0f;
        for (int term = 0; term < product.terms; ++term) {
          sum += to_float(product.a[row * product.a_row + term]) *
                 to_float(product.b[term / 2 * product.b_pair + 2 * column + term % 2]);
        }
        *to = sum;
      }
    }
  }
};

}  // namespace litespark::test
