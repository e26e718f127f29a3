// SPDX-License-Identifier: Apache-2.0
// Kernels without a row's structure: conversion, addition, sum of squares.
#pragma once

#include <cstdint>

#include "ops/cpu/vec16_parts.h"

namespace litespark::cpu {

template <class Vec, class From, class To>
void convert_elements(const void* from, void* to, int64_t size) {
  const From* source = static_cast<const From*>(from);
  To* target = static_cast<To*>(to);
  for_each_part<Vec>(size, [&](auto part, int64_t i) { part.store(target + i, part.load(source + i)); });
}

/// to += from.
template <class Vec, class From>
void add_elements(float* to, const void* from, int64_t size) {
  const From* source = static_cast<const From*>(from);
  for_each_part<Vec>(size,
                     [&](auto part, int64_t i) { part.store(to + i, part.load(to + i) + part.load(source + i)); });
}

/// In double, sixteen interleaved sums added up in order. A square of a float is exact in double, so that it does not
/// matter whether a multiply-add is fused.
template <class Vec, class From>
double square_sum(const void* values, int64_t size) {
  const auto* from = static_cast<const From*>(values);
  double sums[16] = {};
  for_each_part<Vec>(size, [&](auto part, int64_t i) {
    alignas(64) float lanes[16];
    part.load(from + i).store(lanes);
    for (int64_t lane = 0; lane < part.count(); ++lane) {
      const double value = static_cast<double>(lanes[lane]);
      sums[lane] += value * value;
    }
  });
  double total = 0;
  for (const double part : sums) total += part;
  return total;
}

}  // namespace litespark::cpu
