// SPDX-License-Identifier: Apache-2.0
// Bias gradient: column sums of dy, one partial row for every 256 tokens, then the partials in order.
#include "ops/cuda/check.h"
#include "ops/cuda/column_sum.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

inline constexpr int kBiasWarps = 8;

template <class T>
struct BiasArgs {
  const T* dy;
  float* partials;
  int64_t rows;
  int64_t columns;
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kBiasWarps* kWarpSize) bias_partial_kernel(BiasArgs<T> args);

template <class T, int kWidth>
void launch_bias(const BiasArgs<T>& args, cudaStream_t stream) {
  constexpr std::string_view kName = op::BiasBackward<Tensor>::kName;
  const dim3 grid(grid_size(kName, ceil_div(args.columns, kWarpSize * kWidth)),
                  static_cast<unsigned>(ceil_div(args.rows, op::kBiasRowsPerBlock)));
  bias_partial_kernel<T, kWidth><<<grid, kBiasWarps * kWarpSize, 0, stream>>>(args);
  check_launch(kName);
}

}  // namespace

void CudaBackend::run(const op::BiasBackward<Tensor>& op) {
  const int64_t rows = op.dy.rows();
  const int64_t columns = op.dy.columns();
  visit_float_dtype(op.kName, op.dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const BiasArgs<T> args{.dy = op.dy.as<T>(), .partials = op.partials.as<float>(), .rows = rows, .columns = columns};
    if (rows == 0 || columns == 0) return;
    if (columns % kVectorWidth == 0) {
      launch_bias<T, kVectorWidth>(args, context_.stream);
    } else {
      launch_bias<T, 1>(args, context_.stream);
    }
  });
  launch_column_sum(ColumnSum{.op = op.kName,
                              .out = op.dbias.as<float>(),
                              .partials = op.partials.as<float>(),
                              .parts = ceil_div(rows, op::kBiasRowsPerBlock),
                              .columns = columns,
                              .stride = columns,
                              .accumulate = op.accumulate},
                    context_.stream);
}

namespace {

// A block owns 256 tokens of 32 vectors of columns; each warp adds 32 tokens in order, then the warps' sums are added
// in order. 2 bytes read an element in bf16.
template <class T, int kWidth>
__global__ void __launch_bounds__(kBiasWarps* kWarpSize) bias_partial_kernel(BiasArgs<T> args) {
  __shared__ __align__(16) float shared[kBiasWarps][kWarpSize * kWidth];
  constexpr int kRowsPerWarp = op::kBiasRowsPerBlock / kBiasWarps;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kWarpSize * kWidth;
  const int64_t column = first_column + lane * kWidth;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * op::kBiasRowsPerBlock + warp * kRowsPerWarp;
  float sums[kWidth] = {};
  if (column < args.columns) {
#pragma unroll 4
    for (int r = 0; r < kRowsPerWarp; ++r) {
      if (first_row + r >= args.rows) break;
      const Pack<T, kWidth> pack = load_pack<kWidth>(args.dy + (first_row + r) * args.columns + column);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[i] += pack[i];
    }
  }
  store_floats(&shared[warp][lane * kWidth], sums);
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < kWarpSize * kWidth; c += kBiasWarps * kWarpSize) {
    if (first_column + c >= args.columns) return;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kBiasWarps; ++w) total += shared[w][c];
    args.partials[static_cast<int64_t>(blockIdx.y) * args.columns + first_column + c] = total;
  }
}

}  // namespace
}  // namespace litespark::cuda
