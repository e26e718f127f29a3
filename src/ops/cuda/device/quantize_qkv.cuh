// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values brought to e4m3 for attention: a tile of 128 x 128 a block, 8 x 8 elements a thread, as
// QuantizeFp8 has them. Codes of queries and keys go to their rows, those of values are transposed in registers,
// exchanged through shared memory and leave 16 keys at a time, in the order of op::fp8_value_column. Traffic an element
// of bf16: 2 bytes read, 1 written.
#pragma once

#include "core/op/attention_fp8.h"
#include "ops/cuda/device/fp8_copies.cuh"

namespace litespark::cuda {

template <class T>
struct QuantizeQkvArgs {
  const T* qkv;
  uint8_t* queries_keys;
  uint8_t* values;
  const float* abs_max;
  float* scale;
  Fp8Counters counters;
  int64_t rows, columns;
  int64_t row_features;  ///< columns of queries and keys, a multiple of 8
  int64_t value_columns;
};

/// Shared memory.
struct QuantizeQkvShared {
  alignas(16) uint2 tile[kFp8Tile * kFp8Tile / kFp8Block];
  int flushed;
};

/// Sixteen codes of one column, rows in order, to the order of transposed values.
__device__ inline uint4 exchanged_values(uint4 codes) {
  return make_uint4(__byte_perm(codes.x, codes.z, 0x5410), __byte_perm(codes.x, codes.z, 0x7632),
                    __byte_perm(codes.y, codes.w, 0x5410), __byte_perm(codes.y, codes.w, 0x7632));
}

/// From the tile's bytes in shared memory, 16 keys a thread, a feature's 128 by eight threads.
template <class T>
__device__ void store_values(const QuantizeQkvArgs<T>& args, const Place& place, const uint2* tile) {
#pragma unroll
  for (int step = 0; step < kFp8Tile * kFp8Tile / 16 / kFp8TileThreads; ++step) {
    const int index = step * kFp8TileThreads + static_cast<int>(threadIdx.x);
    const int column = index / 8;
    const int64_t row = place.tile_row + index % 8 * 16;
    const int64_t feature = place.tile_column + column - args.row_features;
    if (feature < 0 || place.tile_column + column >= args.columns || row >= args.rows) continue;
    *reinterpret_cast<uint4*>(args.values + feature * args.value_columns + row) =
        exchanged_values(tile_codes(tile, column, index % 8));
  }
}

template <class T>
__device__ void quantize_qkv_tile(const QuantizeQkvArgs<T>& args, QuantizeQkvShared& shared) {
  if (threadIdx.x == 0) shared.flushed = 0;
  __syncthreads();
  const Place place(args.columns);
  Pack<T, kVectorWidth> held[kFp8Block];
  load_block<T, true>(args.qkv, args.rows, args.columns, place, held);
  const Fp8Scale scale = fp8_scale(*args.abs_max, DType::kE4M3);
  const bool is_row = place.column < args.row_features;
  uint2 codes[kFp8Block];
  int flushed = 0;
#pragma unroll
  for (int r = 0; r < kFp8Block; ++r) {
    keep_packed(held[r]);
    codes[r] = codes_of<DType::kE4M3>(
        held[r], [&](int) { return scale.quantise; }, flushed);
    if (is_row && place.row + r < args.rows) {
      *reinterpret_cast<uint2*>(args.queries_keys + (place.row + r) * args.row_features + place.column) = codes[r];
    }
  }
  if (place.tile_column + kFp8Tile > args.row_features) {
    transpose_block(codes);
#pragma unroll
    for (int c = 0; c < kFp8Block; ++c) {
      shared.tile[fp8_tile_slot(place.across * kFp8Block + c, place.down)] = codes[c];
    }
    __syncthreads();
    store_values(args, place, shared.tile);
  }
  const bool is_first = blockIdx.x == 0 && threadIdx.x == 0;
  if (is_first) *args.scale = scale.dequantise;
  if (args.counters.overflows != nullptr) {
    const int overflows = is_first && scale.dequantise != scale.dequantise ? 1 : 0;
    add_counts(args.counters, args.rows * args.columns, overflows, flushed, &shared.flushed);
  }
}

}  // namespace litespark::cuda
