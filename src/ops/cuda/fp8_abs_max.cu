// SPDX-License-Identifier: Apache-2.0
// The largest magnitudes of a tensor: of all of it, or of each row and column.
#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/fp8_tile.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

template <class T>
struct AbsMaxArgs {
  const T* x;
  float* abs_max;         // one, or one a row; may be nullptr
  float* column_abs_max;  // may be nullptr
  int64_t rows, columns, size;
};

template <class T, bool kWide>
__global__ void __launch_bounds__(kAbsMaxThreads) abs_max_kernel(AbsMaxArgs<T> args);
template <class T, bool kWide>
__global__ void __launch_bounds__(kFp8TileThreads) abs_max_tile_kernel(AbsMaxArgs<T> args);

/// In a step that is taken.
__global__ void __launch_bounds__(kAbsMaxThreads) clear_kernel(float* x, const StepState* state, int64_t size) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kAbsMaxThreads + threadIdx.x;
  if (i < size && state->skipped == 0) x[i] = 0;
}

}  // namespace

void CudaBackend::run(const op::Clear<Tensor>& op) {
  const int64_t size = op.x.num_elements();
  if (size == 0) return;
  if (op.state.has_value()) {
    clear_kernel<<<grid_size(op.kName, ceil_div(size, kAbsMaxThreads)), kAbsMaxThreads, 0, context_.stream>>>(
        op.x.as<float>(), static_cast<const StepState*>(op.state.data), size);
    return check_launch(op.kName);
  }
  check(cudaMemsetAsync(op.x.data, 0, static_cast<size_t>(op.x.bytes()), context_.stream), op.kName);
}

void CudaBackend::run(const op::AbsMax<Tensor>& op) {
  if (op.x.num_elements() == 0) return;
  visit_float_dtype(op.kName, op.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const AbsMaxArgs<T> args{.x = op.x.as<T>(),
                             .abs_max = pointer_or_null<float>(op.abs_max),
                             .column_abs_max = pointer_or_null<float>(op.column_abs_max),
                             .rows = op.x.rows(),
                             .columns = op.x.columns(),
                             .size = op.x.num_elements()};
    const bool is_one = op.abs_max.num_elements() == 1 && !op.column_abs_max.has_value();
    if (is_one) {
      const bool wide = args.size % kVectorWidth == 0;
      const int64_t per_block = int64_t{kAbsMaxThreads} * kAbsMaxVectors * (wide ? kVectorWidth : 1);
      const unsigned grid = grid_size(op.kName, ceil_div(args.size, per_block));
      const auto kernel = wide ? abs_max_kernel<T, true> : abs_max_kernel<T, false>;
      kernel<<<grid, kAbsMaxThreads, 0, context_.stream>>>(args);
    } else {
      const bool wide = fp8_rows_are_whole(args.rows, args.columns);
      const auto kernel = wide ? abs_max_tile_kernel<T, true> : abs_max_tile_kernel<T, false>;
      const unsigned grid = grid_size(op.kName, fp8_tiles(args.rows, args.columns));
      kernel<<<grid, kFp8TileThreads, 0, context_.stream>>>(args);
    }
  });
  check_launch(op.kName);
}

namespace {

// Any shape as one row: kAbsMaxVectors vectors a thread under way at once. Traffic: 2 bytes an element in bf16.
template <class T, bool kWide>
__global__ void __launch_bounds__(kAbsMaxThreads) abs_max_kernel(AbsMaxArgs<T> args) {
  constexpr int kWidth = kWide ? kVectorWidth : 1;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kAbsMaxThreads * kAbsMaxVectors + threadIdx.x) * kWidth;
  Pack<T, kWidth> held[kAbsMaxVectors];
#pragma unroll
  for (int v = 0; v < kAbsMaxVectors; ++v) {
    const int64_t at = first + int64_t{v} * kAbsMaxThreads * kWidth;
    held[v] = at < args.size ? load_pack<kWidth>(args.x + at) : Pack<T, kWidth>{};
  }
  float largest = 0;
#pragma unroll
  for (int v = 0; v < kAbsMaxVectors; ++v) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) largest = larger_magnitude(largest, held[v][i]);
  }
  raise_abs_max(args.abs_max, largest);
}

// Rows by shuffles among the sixteen threads beside each other, columns through shared memory; one raise a row or
// column and tile.
template <class T, bool kWide>
__global__ void __launch_bounds__(kFp8TileThreads) abs_max_tile_kernel(AbsMaxArgs<T> args) {
  __shared__ uint32_t columns[kFp8Tile];
  const Place place(args.columns);
  if (threadIdx.x < kFp8Tile) columns[threadIdx.x] = 0;
  __syncthreads();
  Pack<T, kVectorWidth> held[kFp8Block];
  load_block<T, kWide>(args.x, args.rows, args.columns, place, held);
  if (args.abs_max != nullptr) {
    const uint32_t half = (threadIdx.x & 16) != 0 ? 0xffff0000u : 0x0000ffffu;
#pragma unroll
    for (int r = 0; r < kFp8Block; ++r) {
      float largest = 0;
#pragma unroll
      for (int c = 0; c < kFp8Block; ++c) largest = larger_magnitude(largest, held[r][c]);
      if (place.row + r < args.rows) raise_abs_max(args.abs_max + place.row + r, largest, half);
    }
  }
  if (args.column_abs_max == nullptr) return;
#pragma unroll
  for (int c = 0; c < kFp8Block; ++c) {
    float largest = 0;
#pragma unroll
    for (int r = 0; r < kFp8Block; ++r) largest = larger_magnitude(largest, held[r][c]);
    atomicMax(columns + place.across * kFp8Block + c, __float_as_uint(largest) & 0x7fffffffu);
  }
  __syncthreads();
  const int64_t column = place.tile_column + threadIdx.x;
  if (threadIdx.x < kFp8Tile && column < args.columns) {
    atomicMax(reinterpret_cast<uint32_t*>(args.column_abs_max) + column, columns[threadIdx.x]);
  }
}

}  // namespace
}  // namespace litespark::cuda
