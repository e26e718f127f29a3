// SPDX-License-Identifier: Apache-2.0
// Copies of matrix parts between f32 and bf16, for one thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/dtype.h"

namespace litespark::cpu {

inline void convert_values(const float* from, float* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}
inline void convert_values(const bf16* from, bf16* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(bf16));
}
inline void convert_values(const bf16* __restrict from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}
inline void convert_values(const float* __restrict from, bf16* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = to_bf16(from[i]);
}

/// Columns [0, columns) of `rows` rows that lie `stride` elements apart, made dense.
template <class From, class To>
void gather_columns(const From* from, int64_t stride, int64_t rows, int64_t columns, To* to) {
  for (int64_t row = 0; row < rows; ++row) convert_values(from + row * stride, to + row * columns, columns);
}

}  // namespace litespark::cpu
