// SPDX-License-Identifier: Apache-2.0
// What a processor's matrix unit is asked for: a product of bf16 with sums in f32, large enough to be worth it.
#pragma once

#include <cstdint>

#include "core/bf16.h"

namespace litespark::cpu {

/// Terms that one instruction of a matrix unit adds to each of its sums.
inline constexpr int kTileTerms = 32;

/// C [rows, columns] (+)= A [rows, terms] B, where B lies as [terms / 2, columns, 2]. Strides in elements.
struct MatrixProduct {
  const bf16* a;
  int64_t a_row;
  const bf16* b;
  int64_t b_pair;
  float* c;
  int64_t c_row;
  int rows, columns;                        ///< multiples of 32
  int terms;                                ///< multiple of kTileTerms
  int64_t a_step = kTileTerms, b_step = 0;  ///< to the next kTileTerms terms; b_step 0: as B lies
};

}  // namespace litespark::cpu
