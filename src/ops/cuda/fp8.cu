// SPDX-License-Identifier: Apache-2.0
// 8-bit copies of a tensor, both in one read.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/fp8_copies.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

template <class T>
struct QuantizeArgs {
  const T* x;
  uint8_t* copy;        // may be nullptr
  uint8_t* transposed;  // may be nullptr
  const float* abs_max;
  const float* column_abs_max;  // nullptr: abs_max is one number and holds for both copies
  float* scale;
  float* column_scale;
  Fp8Counters counters;  // overflows nullptr: nothing is counted
  int64_t rows, columns;
  bool by_row;
};

/// How many blocks a multiprocessor is to hold: their loads hide each other's conversions. f32 takes twice the
/// registers, and factors that are not one number take more.
template <class T, bool kByVector>
inline constexpr int kBlocksAtOnce = sizeof(T) == 2 && !kByVector ? 4 : 2;

template <class T, DType kFormat, bool kWide, bool kByVector>
__global__ void __launch_bounds__(kFp8TileThreads, kBlocksAtOnce<T, kByVector>)
    quantize_tile_kernel(QuantizeArgs<T> args);

template <class T, DType kFormat>
void launch_quantize(const QuantizeArgs<T>& args, unsigned grid, cudaStream_t stream) {
  const bool wide = fp8_rows_are_whole(args.rows, args.columns);
  const bool by_vector = args.by_row || args.column_abs_max != nullptr;
  const auto kernel =
      wide ? (by_vector ? quantize_tile_kernel<T, kFormat, true, true> : quantize_tile_kernel<T, kFormat, true, false>)
           : (by_vector ? quantize_tile_kernel<T, kFormat, false, true>
                        : quantize_tile_kernel<T, kFormat, false, false>);
  kernel<<<grid, kFp8TileThreads, 0, stream>>>(args);
}

}  // namespace

void CudaBackend::run(const op::QuantizeFp8<Tensor>& op) {
  if (op.x.num_elements() == 0) return;
  const DType format = op.q.has_value() ? op.q.dtype : op.q_transposed.dtype;
  visit_float_dtype(op.kName, op.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const QuantizeArgs<T> args{.x = op.x.as<T>(),
                               .copy = pointer_or_null<uint8_t>(op.q),
                               .transposed = pointer_or_null<uint8_t>(op.q_transposed),
                               .abs_max = pointer_or_null<float>(op.abs_max),
                               .column_abs_max = pointer_or_null<float>(op.column_abs_max),
                               .scale = pointer_or_null<float>(op.scale),
                               .column_scale = pointer_or_null<float>(op.column_scale),
                               .counters = fp8_counters(op.state, op.kind),
                               .rows = op.x.rows(),
                               .columns = op.x.columns(),
                               .by_row = op.abs_max.num_elements() > 1};
    const unsigned grid = grid_size(op.kName, fp8_tiles(args.rows, args.columns));
    if (format == DType::kE4M3) {
      launch_quantize<T, DType::kE4M3>(args, grid, context_.stream);
    } else {
      launch_quantize<T, DType::kE5M2>(args, grid, context_.stream);
    }
  });
  check_launch(op.kName);
}

namespace {

/// Writes the scales that this tile is the first to meet; returns how many are of something with Inf or NaN.
template <class T, DType kFormat>
__device__ int write_scales(const QuantizeArgs<T>& args, const Place& place) {
  int overflows = 0;
  const auto write = [&](float* scale, const float* abs_max, int64_t index) {
    const float inverse = fp8_scale(abs_max[index], kFormat).dequantise;
    scale[index] = inverse;
    overflows += inverse != inverse ? 1 : 0;
  };
  const int64_t row = place.tile_row + threadIdx.x;
  const int64_t column = place.tile_column + threadIdx.x;
  if (args.scale != nullptr && place.tile_column == 0 && threadIdx.x < kFp8Tile) {
    if (args.by_row ? row < args.rows : row == 0) write(args.scale, args.abs_max, args.by_row ? row : 0);
  }
  if (args.column_scale != nullptr && place.tile_row == 0 && threadIdx.x < kFp8Tile && column < args.columns) {
    write(args.column_scale, args.column_abs_max, column);
  }
  return overflows;
}

template <bool kWide>
__device__ void store_codes(uint8_t* row, int64_t columns, int64_t column, uint2 codes) {
  if constexpr (kWide) {
    if (column < columns) *reinterpret_cast<uint2*>(row + column) = codes;
  } else {
#pragma unroll
    for (int c = 0; c < kFp8Block; ++c) {
      if (column + c < columns) row[column + c] = static_cast<uint8_t>((c < 4 ? codes.x : codes.y) >> 8 * (c % 4));
    }
  }
}

/// From the tile's bytes in shared memory to the transposed copy, 16 bytes a thread, a column's 128 by eight threads.
template <class T, bool kWide>
__device__ void store_transposed(const QuantizeArgs<T>& args, const Place& place, const uint2* tile) {
#pragma unroll
  for (int step = 0; step < kFp8Tile * kFp8Tile / 16 / kFp8TileThreads; ++step) {
    const int index = step * kFp8TileThreads + static_cast<int>(threadIdx.x);
    const int column = index / 8;
    const int64_t row = place.tile_row + index % 8 * 16;
    const int64_t to = (place.tile_column + column) * args.rows + row;
    if (place.tile_column + column >= args.columns) continue;
    const uint4 codes = tile_codes(tile, column, index % 8);
    if constexpr (kWide) {
      if (row < args.rows) {
        *reinterpret_cast<uint4*>(args.transposed + to) = codes;
      }
    } else {
      const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
      for (int r = 0; r < 16; ++r) {
        if (row + r < args.rows) args.transposed[to + r] = static_cast<uint8_t>(words[r / 4] >> 8 * (r % 4));
      }
    }
  }
}

/// The row-major copy, and its codes where the transposed copy has the same.
template <class T, DType kFormat, bool kWide, bool kByVector>
__device__ void make_copy(const QuantizeArgs<T>& args, const Place& place, Pack<T, kVectorWidth> (&held)[kFp8Block],
                          uint2 (&codes)[kFp8Block], int& flushed) {
  float factor = kByVector ? 1.0f : factor_of<kFormat>(args.abs_max, 0);
#pragma unroll
  for (int r = 0; r < kFp8Block; ++r) {
    if (kByVector) factor = factor_of<kFormat>(args.abs_max, args.by_row ? min(place.row + r, args.rows - 1) : 0);
    keep_packed(held[r]);
    codes[r] = codes_of<kFormat>(
        held[r], [factor](int) { return factor; }, flushed);
    if (args.copy != nullptr && place.row + r < args.rows) {
      store_codes<kWide>(args.copy + (place.row + r) * args.columns, args.columns, place.column, codes[r]);
    }
  }
}

/// Codes of the transposed copy where each column has a scale of its own.
template <class T, DType kFormat>
__device__ void code_by_column(const QuantizeArgs<T>& args, const Place& place,
                               Pack<T, kVectorWidth> (&held)[kFp8Block], uint2 (&codes)[kFp8Block], int& flushed) {
  float factors[kFp8Block];
#pragma unroll
  for (int c = 0; c < kFp8Block; ++c) {
    factors[c] = factor_of<kFormat>(args.column_abs_max, min(place.column + c, args.columns - 1));
  }
#pragma unroll
  for (int r = 0; r < kFp8Block; ++r) {
    keep_packed(held[r]);
    codes[r] = codes_of<kFormat>(
        held[r], [&](int c) { return factors[c]; }, flushed);
  }
}

// A tile of 128 x 128 a block, 8 x 8 elements a thread: eight rows' vectors under way at once, codes transposed in
// registers and exchanged through 16 KB of shared memory, so that both copies leave in whole 128-byte lines. Traffic an
// element of bf16: 2 bytes read, 1 or 2 written. Four blocks a multiprocessor have 128 KB of reads under way.
template <class T, DType kFormat, bool kWide, bool kByVector>
__global__ void __launch_bounds__(kFp8TileThreads, kBlocksAtOnce<T, kByVector>)
    quantize_tile_kernel(QuantizeArgs<T> args) {
  __shared__ __align__(16) uint2 tile[kFp8Tile * kFp8Tile / 8];
  __shared__ int flushed_in_block;
  if (threadIdx.x == 0) flushed_in_block = 0;
  __syncthreads();
  const Place place(args.columns);
  Pack<T, kVectorWidth> held[kFp8Block];
  load_block<T, kWide>(args.x, args.rows, args.columns, place, held);
  uint2 codes[kFp8Block];
  int flushed = 0;
  if (!kByVector || args.copy != nullptr) {
    make_copy<T, kFormat, kWide, kByVector>(args, place, held, codes, flushed);
  }
  if (args.transposed != nullptr) {
    if constexpr (kByVector) {
      int flushed_by_column = 0;
      code_by_column<T, kFormat>(args, place, held, codes, flushed_by_column);
      if (args.copy == nullptr) flushed = flushed_by_column;
    }
    transpose_block(codes);
#pragma unroll
    for (int c = 0; c < kFp8Block; ++c) {
      tile[fp8_tile_slot(place.across * kFp8Block + c, place.down)] = codes[c];
    }
    __syncthreads();
    store_transposed<T, kWide>(args, place, tile);
  }
  const int overflows = write_scales<T, kFormat>(args, place);
  if (args.counters.overflows != nullptr) {
    add_counts(args.counters, args.rows * args.columns, overflows, flushed, &flushed_in_block);
  }
}

}  // namespace
}  // namespace litespark::cuda
