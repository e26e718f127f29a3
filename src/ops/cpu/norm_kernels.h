// SPDX-License-Identifier: Apache-2.0
// RMSNorm of one row, forward and backward; a head of HeadNorm is such a row too.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/vec16_parts.h"

namespace litespark::cpu {

/// sum = x + delta, stored and read back so that the statistics see the rounded values. Returns the sum of squares.
template <class Vec, class Residual, class Compute>
inline float add_delta(const NormForwardRow& row) {
  const Residual* x = static_cast<const Residual*>(row.x);
  const Compute* delta = static_cast<const Compute*>(row.delta);
  Residual* total = static_cast<Residual*>(row.sum);
  Vec squares = Vec::zero();
  for_each_part<Vec>(row.size, [&](auto part, int64_t i) {
    part.store(total + i, part.load(x + i) + part.load(delta + i));
    const Vec value = part.load(total + i);
    squares = fma(value, value, squares);
  });
  return sum(squares);
}

template <class Vec, class Residual, class Compute>
float norm_forward(const NormForwardRow& row) {
  const Residual* x = static_cast<const Residual*>(row.x);
  float square_total = 0;
  if (row.delta != nullptr) {
    square_total = add_delta<Vec, Residual, Compute>(row);
    x = static_cast<const Residual*>(row.sum);
  } else {
    Vec squares = Vec::zero();
    for_each_part<Vec>(row.size, [&](auto part, int64_t i) {
      const Vec value = part.load(x + i);
      squares = fma(value, value, squares);
    });
    square_total = sum(squares);
  }
  const float rstd = 1.0f / __builtin_sqrtf(square_total / static_cast<float>(row.size) + row.eps);
  const Vec scale = Vec::broadcast(rstd);
  Compute* y = static_cast<Compute*>(row.y);
  for_each_part<Vec>(
      row.size, [&](auto part, int64_t i) { part.store(y + i, part.load(x + i) * scale * part.load(row.weight + i)); });
  return rstd;
}

template <class Vec, class Residual, class Compute>
void norm_backward(const NormBackwardRow& row) {
  const Residual* x = static_cast<const Residual*>(row.x);
  const Compute* dy = static_cast<const Compute*>(row.dy);
  Residual* dresidual = static_cast<Residual*>(row.dresidual);
  Compute* cast = static_cast<Compute*>(row.dresidual_cast);
  Vec products = Vec::zero();
  for_each_part<Vec>(row.size, [&](auto part, int64_t i) {
    products = fma(part.load(row.weight + i) * part.load(dy + i), part.load(x + i), products);
  });
  const Vec rstd = Vec::broadcast(row.rstd);
  const Vec projection = Vec::broadcast(sum(products) / static_cast<float>(row.size) * row.rstd * row.rstd);
  for_each_part<Vec>(row.size, [&](auto part, int64_t i) {
    const Vec x_part = part.load(x + i);
    const Vec dy_part = part.load(dy + i);
    const Vec above = row.first ? Vec::zero() : part.load(dresidual + i);
    const Vec across = negative_fma(x_part, projection, part.load(row.weight + i) * dy_part);
    part.store(row.dweight + i, fma(dy_part * x_part, rstd, part.load(row.dweight + i)));
    const Vec result = fma(across, rstd, above);
    part.store(dresidual + i, result);
    if (cast != nullptr) part.store(cast + i, result);
  });
}

}  // namespace litespark::cpu
