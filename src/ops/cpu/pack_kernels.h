// SPDX-License-Identifier: Apache-2.0
// A block of a weight in the order that the matmul library's AVX-512 and AMX kernels read: 64 columns wide; each step
// down holds one row of f32, or two rows of bf16 side by side. See PackBlock.
#pragma once

#include <cstdint>

#include "ops/cpu/kernel_table.h"

namespace litespark::cpu {

/// [rows, 64] of a row-major matrix; what is not there is zero.
template <class Vec>
void pack_rows_f32(const PackBlock& block) {
  auto* to = static_cast<float*>(block.to);
  for (int row = 0; row < kPackSteps; ++row, to += kPackColumns) {
    const float* const from = block.from + row * block.stride;
    const int columns = row < block.rows ? block.columns : 0;
    int c = 0;
    for (; c + 16 <= columns; c += 16) Vec::load(from + c).store(to + c);
    for (; c < columns; ++c) to[c] = from[c];
    for (; c < kPackColumns; ++c) to[c] = 0.0f;
  }
}

/// Row pairs of a row-major matrix, rounded: [16, 64, 2].
template <class Vec>
void pack_rows_bf16(const PackBlock& block) {
  auto* to = static_cast<uint32_t*>(block.to);
  for (int row = 0; row < 2 * kPackSteps; row += 2, to += kPackColumns) {
    bf16 pair[2][kPackColumns] = {};
    for (int i = 0; i < 2 && row + i < block.rows; ++i) {
      const float* const from = block.from + (row + i) * block.stride;
      int c = 0;
      for (; c + 16 <= block.columns; c += 16) Vec::load(from + c).store(pair[i] + c);
      if (c == block.columns) continue;
      float tail[16] = {};
      for (int t = 0; c + t < block.columns; ++t) tail[t] = from[c + t];
      Vec::load(tail).store(pair[i] + c);
    }
    for (int c = 0; c < kPackColumns; ++c) {
      to[c] = static_cast<uint32_t>(pair[1][c].bits) << 16 | static_cast<uint32_t>(pair[0][c].bits);
    }
  }
}

/// Of a matrix that lies transposed, as [columns, rows].
template <class Vec>
void pack_columns_f32(const PackBlock& block) {
  float staging[kPackColumns * kPackSteps];
  const float* from = block.from;
  int64_t stride = block.stride;
  if (block.rows < kPackSteps || block.columns < kPackColumns) {
    for (int c = 0; c < kPackColumns; ++c) {
      for (int row = 0; row < kPackSteps; ++row) {
        const bool is_there = row < block.rows && c < block.columns;
        staging[c * kPackSteps + row] = is_there ? block.from[c * block.stride + row] : 0.0f;
      }
    }
    from = staging;
    stride = kPackSteps;
  }
  for (int c = 0; c < kPackColumns; c += 16) {
    Vec::transpose(from + c * stride, stride, static_cast<float*>(block.to) + c, kPackColumns);
  }
}

/// The same, rounded: a pair of neighbours in memory moves as one 32-bit unit.
template <class Vec>
void pack_columns_bf16(const PackBlock& block) {
  alignas(64) bf16 rounded[kPackColumns][2 * kPackSteps];
  for (int c = 0; c < kPackColumns; ++c) {
    const float* from = block.from + c * block.stride;
    float tail[2 * kPackSteps];
    if (c >= block.columns || block.rows < 2 * kPackSteps) {
      for (int row = 0; row < 2 * kPackSteps; ++row) {
        tail[row] = c < block.columns && row < block.rows ? from[row] : 0.0f;
      }
      from = tail;
    }
    Vec::load(from).store(rounded[c]);
    Vec::load(from + 16).store(rounded[c] + 16);
  }
  for (int c = 0; c < kPackColumns; c += 16) {
    Vec::transpose(reinterpret_cast<const float*>(rounded[c]), kPackSteps, static_cast<float*>(block.to) + c,
                   kPackColumns);
  }
}

}  // namespace litespark::cpu
