// SPDX-License-Identifier: Apache-2.0
// RoPE of the rotated heads of one token.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/vec16_parts.h"

namespace litespark::cpu {

template <class Vec, class T>
void rope(const RopeRow& row) {
  const int64_t half = row.dim / 2;
  const Vec direction = Vec::broadcast(row.direction);
  T* first = static_cast<T*>(row.heads);
  for (int64_t head = 0; head < row.num_heads; ++head, first += row.dim) {
    T* second = first + half;
    for_each_part<Vec>(half, [&](auto part, int64_t i) {
      const Vec x = part.load(first + i);
      const Vec y = part.load(second + i);
      const Vec cosine = part.load(row.angles + i);
      const Vec sine = part.load(row.angles + half + i) * direction;
      part.store(first + i, negative_fma(y, sine, x * cosine));
      part.store(second + i, fma(x, sine, y * cosine));
    });
  }
}

}  // namespace litespark::cpu
