// SPDX-License-Identifier: Apache-2.0
// Small matrix products in registers, over any vector type and operand precision ("Math"): what attention's tiles and
// the weight gradient's panels are made of. Each element of C is one chain of multiply-adds in the order of the steps,
// whatever block it falls into.
#pragma once

#include <cstdint>

#include "core/bf16.h"

namespace litespark::cpu {

/// Operands in f32, whatever the tensors hold. kVecs: how many vectors wide a register block may be.
template <class Vec16, int kVecs>
struct F32Math {
  using Vec = Vec16;
  using Element = float;
  using Operand = Vec16;
  static constexpr bool kMultipliesTiles = false;  ///< on a matrix unit: see tile_math_amx.h
  static constexpr int kMaxVecs = kVecs;
  static constexpr int kPair = 1;       ///< consecutive terms of a sum that lie side by side in an operand
  static constexpr int kExpDegree = 6;  ///< full f32 precision

  static Operand load(const Element* from) { return Vec::load(from); }
  static Operand broadcast(const Element* from) { return Vec::broadcast(*from); }
  static Vec multiply_add(Operand a, Operand b, Vec sum) { return fma(a, b, sum); }
  static void store(Vec values, Element* to) { values.store(to); }
};

/// bits -> f32 without the shared inline function, which another instruction set's copy might replace at link time.
template <class Math>
inline float plain_float(const float* from) {
  return *from;
}
template <class Math>
inline float plain_float(const bf16* from) {
  const uint32_t bits = static_cast<uint32_t>(from->bits) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

/// C [rows, 16 vecs] (+)= A [rows, steps] B [steps, 16 vecs]; a step is Math::kPair terms. Strides in elements.
template <class Math>
struct TileProduct {
  const typename Math::Element* a;
  int64_t a_row, a_step;
  const typename Math::Element* b;
  int64_t b_step;
  float* c;
  int64_t c_row;
  int rows, vecs, steps;
};

enum class ProductStart {
  kZero,      ///< C = factor * A B
  kAdd,       ///< C += A B
  kRescaled,  ///< C = C * lane factors + A B
};

/// A block of C in registers. Needs kRows * kVecs accumulators, kVecs operands and one broadcast.
template <class Math, int kRows, int kVecs, ProductStart kStart>
inline void multiply_block(const TileProduct<Math>& product, int row, int vec, float factor, const float* factors) {
  using Vec = typename Math::Vec;
  Vec sums[kRows][kVecs];
  float* c = product.c + row * product.c_row + vec * 16;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      if constexpr (kStart == ProductStart::kZero) {
        sums[r][v] = Vec::zero();
      } else if constexpr (kStart == ProductStart::kAdd) {
        sums[r][v] = Vec::load(c + r * product.c_row + v * 16);
      } else {
        sums[r][v] = Vec::load(c + r * product.c_row + v * 16) * Vec::load(factors + (vec + v) * 16);
      }
    }
  }
  const typename Math::Element* a = product.a + row * product.a_row;
  const typename Math::Element* b = product.b + vec * 16 * Math::kPair;
  for (int step = 0; step < product.steps; ++step) {
    typename Math::Operand operands[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) operands[v] = Math::load(b + v * 16 * Math::kPair);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename Math::Operand left = Math::broadcast(a + r * product.a_row);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sums[r][v] = Math::multiply_add(left, operands[v], sums[r][v]);
    }
    a += product.a_step;
    b += product.b_step;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      if constexpr (kStart == ProductStart::kZero) sums[r][v] = sums[r][v] * Vec::broadcast(factor);
      sums[r][v].store(c + r * product.c_row + v * 16);
    }
  }
}

template <class Math, int kVecs, ProductStart kStart>
inline void multiply_columns(const TileProduct<Math>& product, int vec, float factor, const float* factors) {
  constexpr int kRows = 6;
  int row = 0;
  for (; row + kRows <= product.rows; row += kRows) {
    multiply_block<Math, kRows, kVecs, kStart>(product, row, vec, factor, factors);
  }
  if (row + 4 <= product.rows) {
    multiply_block<Math, 4, kVecs, kStart>(product, row, vec, factor, factors);
    row += 4;
  }
  if (row + 2 <= product.rows) {
    multiply_block<Math, 2, kVecs, kStart>(product, row, vec, factor, factors);
    row += 2;
  }
  if (row < product.rows) multiply_block<Math, 1, kVecs, kStart>(product, row, vec, factor, factors);
}

template <class Math, ProductStart kStart>
void multiply(const TileProduct<Math>& product, float factor = 1.0f, const float* factors = nullptr) {
  int vec = 0;
  if constexpr (Math::kMaxVecs >= 4) {
    for (; vec + 4 <= product.vecs; vec += 4) multiply_columns<Math, 4, kStart>(product, vec, factor, factors);
  }
  if constexpr (Math::kMaxVecs >= 2) {
    for (; vec + 2 <= product.vecs; vec += 2) multiply_columns<Math, 2, kStart>(product, vec, factor, factors);
  }
  for (; vec < product.vecs; ++vec) multiply_columns<Math, 1, kStart>(product, vec, factor, factors);
}

}  // namespace litespark::cpu
