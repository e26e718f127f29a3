// SPDX-License-Identifier: Apache-2.0
// Softmax over one row of logits: its statistics, and the cross-entropy gradient in place.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/vec16_math.h"
#include "ops/cpu/vec16_parts.h"

namespace litespark::cpu {

template <class Vec, class T>
SoftmaxStatistics softmax_statistics(const void* logits, int64_t size) {
  // Blocks keep a lane's sum short; a vocabulary of 128k in one float sum would lose three digits.
  constexpr int64_t kBlock = 1024;
  const T* row = static_cast<const T*>(logits);
  const float lowest = -__builtin_inff();
  Vec maxima = Vec::broadcast(lowest);
  for_each_part<Vec>(size, [&](auto part, int64_t i) { maxima = max(maxima, part.load_or(row + i, lowest)); });
  const float maximum = largest(maxima);
  const Vec shift = Vec::broadcast(maximum);
  double total = 0;
  for (int64_t first = 0; first < size; first += kBlock) {
    const int64_t count = size - first < kBlock ? size - first : kBlock;
    Vec sums = Vec::zero();
    for_each_part<Vec>(
        count, [&](auto part, int64_t i) { sums = sums + vec_exp(part.load_or(row + first + i, lowest) - shift); });
    total += static_cast<double>(sum(sums));
  }
  return {.maximum = maximum, .sum = total};
}

template <class Vec, class T>
void softmax_gradient(const SoftmaxGradientRow& row) {
  T* logits = static_cast<T*>(row.logits);
  const Vec shift = Vec::broadcast(row.maximum);
  const Vec scale = Vec::broadcast(row.scale);
  const TailPart<Vec> one_element{1};
  const bool has_label = row.label >= 0;
  T* const label = logits + (has_label ? row.label : 0);
  const Vec at_label = vec_exp(one_element.load(label) - shift) * scale - Vec::broadcast(1.0f);
  for_each_part<Vec>(
      row.size, [&](auto part, int64_t i) { part.store(logits + i, vec_exp(part.load(logits + i) - shift) * scale); });
  if (has_label) one_element.store(label, at_label);
}

}  // namespace litespark::cpu
