// SPDX-License-Identifier: Apache-2.0
// SwiGLU of one row, forward and backward.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/vec16_math.h"
#include "ops/cpu/vec16_parts.h"

namespace litespark::cpu {

template <class Vec, class T>
void swiglu_forward(const SwiGluForwardRow& row) {
  const T* gate = static_cast<const T*>(row.gate);
  const T* up = static_cast<const T*>(row.up);
  T* h = static_cast<T*>(row.h);
  const Vec one = Vec::broadcast(1.0f);
  for_each_part<Vec>(row.size, [&](auto part, int64_t i) {
    const Vec g = part.load(gate + i);
    // Divided before the product with `up`: where exp overflows this is 0 whatever `up` is.
    part.store(h + i, g / (one + vec_exp(Vec::zero() - g)) * part.load(up + i));
  });
}

template <class Vec, class T>
void swiglu_backward(const SwiGluBackwardRow& row) {
  const T* gate = static_cast<const T*>(row.gate);
  const T* up = static_cast<const T*>(row.up);
  const T* dh = static_cast<const T*>(row.dh);
  T* dgate = static_cast<T*>(row.dgate);
  T* dup = static_cast<T*>(row.dup);
  const Vec one = Vec::broadcast(1.0f);
  for_each_part<Vec>(row.size, [&](auto part, int64_t i) {
    const Vec g = part.load(gate + i);
    const Vec u = part.load(up + i);
    const Vec d = part.load(dh + i);
    const Vec sigmoid = one / (one + vec_exp(Vec::zero() - g));
    const Vec slope = fma(g, one - sigmoid, one);
    part.store(dgate + i, d * u * sigmoid * slope);
    part.store(dup + i, d * g * sigmoid);
  });
}

}  // namespace litespark::cpu
