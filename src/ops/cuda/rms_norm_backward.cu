// SPDX-License-Identifier: Apache-2.0
// Gradient of RMSNorm, added in place to the residual gradient. Weight gradients leave as one partial row for every 64
// tokens and are added in order by a second kernel: no atomics.
#include "ops/cuda/check.h"
#include "ops/cuda/column_sum.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/heuristics/rows.h"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

template <class R, class T>
struct BackwardArgs {
  R* dresidual;
  T* dresidual_cast;  // may be nullptr
  const T* dy;
  const R* x;
  const float* rstd;
  const float* weight;
  float* partials;
  int64_t rows;
  int columns;
  bool first;
};

template <class R, class T, int kVectors, int kRows>
__global__ void __launch_bounds__(kMaxTeamThreads) rms_norm_backward_kernel(BackwardArgs<R, T> args);
template <class R, class T>
__global__ void rms_norm_backward_any_kernel(BackwardArgs<R, T> args);
template <class R, class T>
__global__ void rms_norm_dweight_any_kernel(BackwardArgs<R, T> args);

inline constexpr int kAnyThreads = 256;

template <class R, class T>
void launch_backward(const BackwardArgs<R, T>& args, cudaStream_t stream) {
  constexpr std::string_view kName = op::RmsNormBackward<Tensor>::kName;
  const int64_t parts = ceil_div(args.rows, op::kRmsNormRowsPerBlock);
  const unsigned grid = grid_size(kName, parts);
  const RmsNormBackwardShape shape = rms_norm_backward_shape(args.columns);
  constexpr int kHalf = sizeof(R) == 4 ? 2 : 1;
  if (shape.vectors == 2) {
    rms_norm_backward_kernel<R, T, 2, 1><<<grid, shape.threads, 0, stream>>>(args);
  } else if (shape.rows == 4) {
    rms_norm_backward_kernel<R, T, 1, 4 / kHalf><<<grid, shape.threads, 0, stream>>>(args);
  } else if (shape.rows == 2) {
    rms_norm_backward_kernel<R, T, 1, 2 / kHalf><<<grid, shape.threads, 0, stream>>>(args);
  } else {
    const dim3 dweight_grid(grid, static_cast<unsigned>(ceil_div(args.columns, kAnyThreads)));
    rms_norm_dweight_any_kernel<R, T><<<dweight_grid, kAnyThreads, 0, stream>>>(args);
    rms_norm_backward_any_kernel<R, T><<<grid_size(kName, args.rows), kAnyThreads, 0, stream>>>(args);
  }
  check_launch(kName);
}

}  // namespace

void CudaBackend::run(const op::RmsNormBackward<Tensor>& op) {
  visit_residual_compute(op.kName, op.x.dtype, op.dy.dtype, [&](auto residual, auto compute) {
    using R = typename decltype(residual)::type;
    using T = typename decltype(compute)::type;
    const BackwardArgs<R, T> args{.dresidual = op.dresidual.as<R>(),
                                  .dresidual_cast = pointer_or_null<T>(op.dresidual_cast),
                                  .dy = op.dy.as<T>(),
                                  .x = op.x.as<R>(),
                                  .rstd = op.rstd.as<float>(),
                                  .weight = op.weight.as<float>(),
                                  .partials = op.partials.as<float>(),
                                  .rows = op.x.rows(),
                                  .columns = static_cast<int>(op.x.columns()),
                                  .first = op.first};
    if (args.rows > 0) launch_backward(args, context_.stream);
  });
  launch_column_sum(ColumnSum{.op = op.kName,
                              .out = op.dweight.as<float>(),
                              .partials = op.partials.as<float>(),
                              .parts = ceil_div(op.x.rows(), op::kRmsNormRowsPerBlock),
                              .columns = op.x.columns(),
                              .stride = op.x.columns(),
                              .accumulate = op.accumulate},
                    context_.stream);
}

namespace {

// Sums kRows values over the block at once; `shared` alternates between two buffers, so one barrier is enough.
template <int kRows>
__device__ void block_sums(float (&values)[kRows], float (*shared)[kMaxTeamThreads / kWarpSize]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int num_warps = static_cast<int>(blockDim.x) / kWarpSize;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    values[r] = warp_sum(values[r]);
    if (lane == 0) shared[r][warp] = values[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRows; ++r) values[r] = warp_sum<16>(lane % 16 < num_warps ? shared[r][lane % 16] : 0.0f);
}

// A block owns 64 tokens and takes kRows of them at a time; a thread owns kVectors vectors of the columns, with their
// weights and weight gradients in registers. Two or more blocks a multiprocessor hide each other's barrier.
// Traffic a column: dy, x, dresidual read, dresidual written: 8 bytes in bf16, 14 with an f32 stream (2 more for the
// cast copy, 2 or 4 fewer when no gradient comes from above), plus 1/16 byte of partials.
template <class R, class T, int kVectors, int kRows>
__global__ void __launch_bounds__(kMaxTeamThreads) rms_norm_backward_kernel(BackwardArgs<R, T> args) {
  __shared__ float shared[2][kRows][kMaxTeamThreads / kWarpSize];
  const int vectors = args.columns / kVectorWidth;
  float weight[kVectors][kVectorWidth];
  float dweight[kVectors][kVectorWidth];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
#pragma unroll
    for (int i = 0; i < kVectorWidth; ++i) {
      dweight[v][i] = 0;
      weight[v][i] = 0;
    }
    if (vector < vectors) load_floats(args.weight + vector * kVectorWidth, weight[v]);
  }
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * op::kRmsNormRowsPerBlock;
  int parity = 0;
#pragma unroll 1
  for (int step = 0; step < op::kRmsNormRowsPerBlock && first_row + step < args.rows; step += kRows, parity ^= 1) {
    Pack<T, kVectorWidth> dy[kRows][kVectors];
    Pack<R, kVectorWidth> x[kRows][kVectors];
    Pack<R, kVectorWidth> dresidual[kRows][kVectors];
    float rstd[kRows];
    float dot[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = first_row + step + r;
      rstd[r] = row < args.rows ? args.rstd[row] : 0.0f;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        dy[r][v] = {};
        x[r][v] = {};
        dresidual[r][v] = {};
        const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
        if (vector >= vectors || row >= args.rows) continue;
        const int64_t at = row * args.columns + vector * kVectorWidth;
        dy[r][v] = load_pack<kVectorWidth>(args.dy + at);
        x[r][v] = load_pack<kVectorWidth>(args.x + at);
        if (!args.first) dresidual[r][v] = load_pack<kVectorWidth>(args.dresidual + at);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      dot[r] = 0;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < kVectorWidth; ++i) {
          dot[r] += weight[v][i] * dy[r][v][i] * x[r][v][i];
          dweight[v][i] += dy[r][v][i] * x[r][v][i] * rstd[r];
        }
      }
    }
    block_sums<kRows>(dot, shared[parity]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        keep_packed(dy[r][v]);
        keep_packed(x[r][v]);
        keep_packed(dresidual[r][v]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = first_row + step + r;
      const float coefficient = dot[r] / static_cast<float>(args.columns) * rstd[r] * rstd[r];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
        if (vector >= vectors || row >= args.rows) continue;
        const int64_t at = row * args.columns + vector * kVectorWidth;
        float values[kVectorWidth];
#pragma unroll
        for (int i = 0; i < kVectorWidth; ++i) {
          values[i] = dresidual[r][v][i] + rstd[r] * (weight[v][i] * dy[r][v][i] - x[r][v][i] * coefficient);
        }
        store_floats(args.dresidual + at, values);
        if (args.dresidual_cast == nullptr) continue;
#pragma unroll
        for (int i = 0; i < kVectorWidth; ++i) values[i] = rounded<R>(values[i]);
        store_floats(args.dresidual_cast + at, values);
      }
    }
  }
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (vector >= vectors) continue;
    store_floats(args.partials + static_cast<int64_t>(blockIdx.x) * args.columns + vector * kVectorWidth, dweight[v]);
  }
}

// Any number of columns: a block a row, single elements, two passes.
template <class R, class T>
__global__ void rms_norm_backward_any_kernel(BackwardArgs<R, T> args) {
  __shared__ float shared[kAnyThreads / kWarpSize];
  const int64_t start = static_cast<int64_t>(blockIdx.x) * args.columns;
  float dot = 0;
  for (int c = static_cast<int>(threadIdx.x); c < args.columns; c += kAnyThreads) {
    dot += args.weight[c] * as_float(args.dy[start + c]) * as_float(args.x[start + c]);
  }
  const float rstd = args.rstd[blockIdx.x];
  const float coefficient = block_sum(dot, shared) / static_cast<float>(args.columns) * rstd * rstd;
  for (int c = static_cast<int>(threadIdx.x); c < args.columns; c += kAnyThreads) {
    const float above = args.first ? 0.0f : as_float(args.dresidual[start + c]);
    const float gradient =
        above + rstd * (args.weight[c] * as_float(args.dy[start + c]) - as_float(args.x[start + c]) * coefficient);
    args.dresidual[start + c] = from_float<R>(gradient);
    if (args.dresidual_cast != nullptr) args.dresidual_cast[start + c] = from_float<T>(rounded<R>(gradient));
  }
}

// One partial row of the weight gradient: a thread a column, tokens in order.
template <class R, class T>
__global__ void rms_norm_dweight_any_kernel(BackwardArgs<R, T> args) {
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kAnyThreads + threadIdx.x;
  if (column >= args.columns) return;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * op::kRmsNormRowsPerBlock;
  float total = 0;
  for (int r = 0; r < op::kRmsNormRowsPerBlock && first_row + r < args.rows; ++r) {
    const int64_t at = (first_row + r) * args.columns + column;
    total += as_float(args.dy[at]) * as_float(args.x[at]) * args.rstd[first_row + r];
  }
  args.partials[static_cast<int64_t>(blockIdx.x) * args.columns + column] = total;
}

}  // namespace
}  // namespace litespark::cuda
