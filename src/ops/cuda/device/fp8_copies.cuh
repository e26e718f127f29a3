// SPDX-License-Identifier: Apache-2.0
// What kernels share that bring tensors to 8 bits: codes of a thread's elements, their transposition, counts.
#pragma once

#include <cstdint>

#include "core/fp8.h"
#include "core/op/fp8.h"
#include "core/step_state.h"
#include "core/tensor.h"
#include "ops/cuda/device/fp8_codes.cuh"
#include "ops/cuda/device/fp8_tile.cuh"
#include "ops/cuda/device/reduce.cuh"

namespace litespark::cuda {

/// Of StepState; overflows nullptr: nothing is counted.
struct Fp8Counters {
  unsigned long long* overflows;
  unsigned long long* elements;  // nullptr: not counted
  unsigned long long* flushed;
};

/// Of a tensor of `kind`.
inline Fp8Counters fp8_counters(const Tensor& state, op::Fp8Kind kind) {
  if (!state.has_value()) return {};
  auto* const counts = static_cast<StepState*>(state.data);
  const auto word = [](int64_t* count) { return reinterpret_cast<unsigned long long*>(count); };
  Fp8Counters counters{.overflows = word(&counts->fp8_overflows), .elements = nullptr, .flushed = nullptr};
  if (kind == op::Fp8Kind::kInput) {
    counters.elements = word(&counts->fp8_inputs);
    counters.flushed = word(&counts->fp8_inputs_flushed);
  } else if (kind == op::Fp8Kind::kGradient) {
    counters.elements = word(&counts->fp8_gradients);
    counters.flushed = word(&counts->fp8_gradients_flushed);
  }
  return counters;
}

template <DType kFormat>
__device__ uint2 pack_fp8(const float (&values)[kFp8Block]) {
  return make_uint2(pack_fp8<kFormat>(values[0], values[1]) | pack_fp8<kFormat>(values[2], values[3]) << 16,
                    pack_fp8<kFormat>(values[4], values[5]) | pack_fp8<kFormat>(values[6], values[7]) << 16);
}

/// The bytes of four words, transposed as a 4 x 4 matrix.
__device__ inline void transpose_bytes(uint32_t (&words)[4]) {
  const uint32_t low_01 = __byte_perm(words[0], words[1], 0x5140);
  const uint32_t low_23 = __byte_perm(words[2], words[3], 0x5140);
  const uint32_t high_01 = __byte_perm(words[0], words[1], 0x7362);
  const uint32_t high_23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low_01, low_23, 0x5410);
  words[1] = __byte_perm(low_01, low_23, 0x7632);
  words[2] = __byte_perm(high_01, high_23, 0x5410);
  words[3] = __byte_perm(high_01, high_23, 0x7632);
}

/// rows[r] holds the eight codes of row r; afterwards rows[c] those of column c.
__device__ inline void transpose_block(uint2 (&rows)[kFp8Block]) {
  uint32_t corners[2][2][4];  // [upper, lower][left, right]
#pragma unroll
  for (int r = 0; r < kFp8Block; ++r) {
    corners[r / 4][0][r % 4] = rows[r].x;
    corners[r / 4][1][r % 4] = rows[r].y;
  }
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) transpose_bytes(corners[corner / 2][corner % 2]);
#pragma unroll
  for (int c = 0; c < kFp8Block; ++c) rows[c] = make_uint2(corners[0][c / 4][c % 4], corners[1][c / 4][c % 4]);
}

/// Codes of eight elements, each times its factor; counts those that become 0.
template <DType kFormat, class T, class Factor>
__device__ uint2 codes_of(const Pack<T, kVectorWidth>& row, const Factor& factor, int& flushed) {
  constexpr float kFlushed = fp8_flushed_below(kFormat);
  float values[kFp8Block];
#pragma unroll
  for (int c = 0; c < kFp8Block; ++c) {
    values[c] = row[c] * factor(c);
    flushed += values[c] != 0.0f && fabsf(values[c]) <= kFlushed ? 1 : 0;
  }
  return pack_fp8<kFormat>(values);
}

template <DType kFormat>
__device__ float factor_of(const float* abs_max, int64_t index) {
  return fp8_scale(abs_max[index], kFormat).quantise;
}

/// Codes of rows 16 `piece` .. + 15 of a column of a tile that lies in shared memory by fp8_tile_slot.
__device__ inline uint4 tile_codes(const uint2* tile, int column, int piece) {
  // Two chunks that follow each other share 16 bytes, in one order or the other.
  const int slot = fp8_tile_slot(column, piece * 2);
  const uint4 codes = *reinterpret_cast<const uint4*>(tile + (slot & ~1));
  return slot % 2 != 0 ? make_uint4(codes.z, codes.w, codes.x, codes.y) : codes;
}

/// By all threads of a block; `shared` is 0 and the block's.
__device__ inline void add_counts(const Fp8Counters& counters, int64_t elements, int overflows, int flushed,
                                  int* shared) {
  overflows = __reduce_add_sync(kFullWarp, overflows);
  flushed = __reduce_add_sync(kFullWarp, flushed);
  if (threadIdx.x % kWarpSize == 0) {
    if (overflows > 0) atomicAdd(counters.overflows, static_cast<unsigned long long>(overflows));
    if (flushed > 0) atomicAdd(shared, flushed);
  }
  if (counters.elements == nullptr) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (*shared > 0) atomicAdd(counters.flushed, static_cast<unsigned long long>(*shared));
  if (blockIdx.x == 0) atomicAdd(counters.elements, static_cast<unsigned long long>(elements));
}

}  // namespace litespark::cuda
