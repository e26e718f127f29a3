// SPDX-License-Identifier: Apache-2.0
// Gradient of RMSNorm, added in place to the residual gradient. Weight gradients leave as one partial row for every 64
// tokens and are added in order by a second kernel: no atomics.
#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/column_sum.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/mma.cuh"
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
  float* abs_max;  // raised to the largest magnitude of dresidual_cast, or of dresidual; may be nullptr
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

/// 16-byte pieces of a vector of eight elements.
template <class T>
inline constexpr int kPieces = static_cast<int>(sizeof(Pack<T, kVectorWidth>)) / 16;
/// Pieces that a thread has of one row: of dy, x and dresidual.
template <class R, class T, int kVectors>
inline constexpr int kRowPieces = kVectors*(kPieces<T> + 2 * kPieces<R>);
inline constexpr int kStages = 2;
/// Whether the next rows are copied ahead into shared memory.
template <class R>
inline constexpr bool kIsStaged = norm_backward_is_staged(sizeof(R));

template <class R, class T, int kVectors, int kRows>
void launch_held(const BackwardArgs<R, T>& args, const RmsNormBackwardShape& shape, cudaStream_t stream) {
  constexpr std::string_view kName = op::RmsNormBackward<Tensor>::kName;
  const int threads = shape.threads * shape.teams;
  const int staged_bytes = kIsStaged<R> ? kStages * kRows * kRowPieces<R, T, kVectors> * threads * 16 : 0;
  // The teams' weight gradients meet where the rows were.
  const int gathered_bytes = shape.teams > 1 ? threads * kVectors * kVectorWidth * static_cast<int>(sizeof(float)) : 0;
  const int shared_bytes = std::max(staged_bytes, gathered_bytes);
  const auto kernel = rms_norm_backward_kernel<R, T, kVectors, kRows>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes), kName);
  const unsigned grid = grid_size(kName, ceil_div(args.rows, op::kRmsNormRowsPerBlock));
  const dim3 block(static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.teams));
  kernel<<<grid, block, static_cast<size_t>(shared_bytes), stream>>>(args);
}

template <class R, class T>
void launch_backward(const BackwardArgs<R, T>& args, cudaStream_t stream) {
  constexpr std::string_view kName = op::RmsNormBackward<Tensor>::kName;
  const RmsNormBackwardShape shape =
      rms_norm_backward_shape(args.columns, ceil_div(args.rows, op::kRmsNormRowsPerBlock));
  constexpr int kHalf = sizeof(R) == 4 ? 2 : 1;
  if (shape.vectors == 2) {
    launch_held<R, T, 2, 1>(args, shape, stream);
  } else if (shape.rows == 4) {
    launch_held<R, T, 1, 4 / kHalf>(args, shape, stream);
  } else if (shape.rows == 2) {
    launch_held<R, T, 1, 2 / kHalf>(args, shape, stream);
  } else {
    const dim3 dweight_grid(grid_size(kName, ceil_div(args.rows, op::kRmsNormRowsPerBlock)),
                            static_cast<unsigned>(ceil_div(args.columns, kAnyThreads)));
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
                                  .abs_max = pointer_or_null<float>(op.abs_max),
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

// Sums kRows values over each team at once; `shared` alternates between two buffers, so one barrier is enough.
template <int kRows>
__device__ void team_sums(float (&values)[kRows], float (*shared)[kMaxTeamThreads / kWarpSize]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int num_warps = static_cast<int>(blockDim.x) / kWarpSize;
  const int first_warp = static_cast<int>(threadIdx.y) * num_warps;
  const int warp = first_warp + static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    values[r] = warp_sum(values[r]);
    if (lane == 0) shared[r][warp] = values[r];
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    values[r] = warp_sum<16>(lane % 16 < num_warps ? shared[r][first_warp + lane % 16] : 0.0f);
}

/// A thread's own slots in shared memory: piece p of thread t at (p * threads + t) * 16, so that a warp's accesses are
/// contiguous and no barrier is needed between the copy and its use.
class Slots {
 public:
  __device__ explicit Slots(uint4* base)
      : base_(base + threadIdx.y * blockDim.x + threadIdx.x), stride_(static_cast<int>(blockDim.x * blockDim.y)) {}

  template <class T>
  __device__ void fetch(int piece, const T* source, bool exists) const {
#pragma unroll
    for (int p = 0; p < kPieces<T>; ++p) {
      copy_async_16(shared_address(base_ + (piece + p) * stride_), reinterpret_cast<const uint4*>(source) + p, exists);
    }
  }
  template <class T>
  __device__ Pack<T, kVectorWidth> read(int piece) const {
    Pack<T, kVectorWidth> pack;
#pragma unroll
    for (int p = 0; p < kPieces<T>; ++p) {
      constexpr int kPart = kVectorWidth / kPieces<T>;
      const auto part = *reinterpret_cast<const Pack<T, kPart>*>(base_ + (piece + p) * stride_);
#pragma unroll
      for (int i = 0; i < kPart; ++i) pack.elements[p * kPart + i] = part.elements[i];
    }
    return pack;
  }

 private:
  uint4* base_;
  int stride_;
};

/// What a thread holds of kRows rows.
template <class R, class T, int kVectors, int kRows>
struct HeldRows {
  Pack<T, kVectorWidth> dy[kRows][kVectors];
  Pack<R, kVectorWidth> x[kRows][kVectors];
  Pack<R, kVectorWidth> dresidual[kRows][kVectors];
};

// Starts the copies of rows `first` .. `first + kRows` into one stage; what lies outside the tensor becomes 0.
template <class R, class T, int kVectors, int kRows>
__device__ void fetch_rows(const BackwardArgs<R, T>& args, const Slots& slots, int stage, int64_t first, int64_t end) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int column = static_cast<int>(threadIdx.x + v * blockDim.x) * kVectorWidth;
      const bool exists = first + r < end && column < args.columns;
      const int64_t at = exists ? (first + r) * args.columns + column : 0;
      const int piece = (stage * kRows + r) * kRowPieces<R, T, kVectors> + v * kRowPieces<R, T, 1>;
      slots.fetch(piece, args.dy + at, exists);
      slots.fetch(piece + kPieces<T>, args.x + at, exists);
      if (!args.first) slots.fetch(piece + kPieces<T> + kPieces<R>, args.dresidual + at, exists);
    }
  }
  copy_async_commit();
}

template <class R, class T, int kVectors, int kRows>
__device__ void read_rows(const BackwardArgs<R, T>& args, const Slots& slots, int stage,
                          HeldRows<R, T, kVectors, kRows>& rows) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int piece = (stage * kRows + r) * kRowPieces<R, T, kVectors> + v * kRowPieces<R, T, 1>;
      rows.dy[r][v] = slots.read<T>(piece);
      rows.x[r][v] = slots.read<R>(piece + kPieces<T>);
      if (args.first) {
        rows.dresidual[r][v] = {};
      } else {
        rows.dresidual[r][v] = slots.read<R>(piece + kPieces<T> + kPieces<R>);
      }
    }
  }
}

// The same straight from memory.
template <class R, class T, int kVectors, int kRows>
__device__ void load_rows(const BackwardArgs<R, T>& args, int64_t first, int64_t end,
                          HeldRows<R, T, kVectors, kRows>& rows) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      rows.dy[r][v] = {};
      rows.x[r][v] = {};
      rows.dresidual[r][v] = {};
      const int column = static_cast<int>(threadIdx.x + v * blockDim.x) * kVectorWidth;
      if (first + r >= end || column >= args.columns) continue;
      const int64_t at = (first + r) * args.columns + column;
      rows.dy[r][v] = load_pack<kVectorWidth>(args.dy + at);
      rows.x[r][v] = load_pack<kVectorWidth>(args.x + at);
      if (!args.first) rows.dresidual[r][v] = load_pack<kVectorWidth>(args.dresidual + at);
    }
  }
}

// Adds the teams' weight gradients in order; the first team has the sum. `room` is the block's shared memory.
template <int kVectors>
__device__ void gather_teams(float (&dweight)[kVectors][kVectorWidth], float* room) {
  copy_async_wait<0>();
  __syncthreads();
  const auto row_of = [&](unsigned team, int v) {
    return room + ((team * kVectors + static_cast<unsigned>(v)) * blockDim.x + threadIdx.x) * kVectorWidth;
  };
#pragma unroll
  for (int v = 0; v < kVectors; ++v) store_floats(row_of(threadIdx.y, v), dweight[v]);
  __syncthreads();
  if (threadIdx.y > 0) return;
  for (unsigned team = 1; team < blockDim.y; ++team) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      float other[kVectorWidth];
      load_floats(row_of(team, v), other);
#pragma unroll
      for (int i = 0; i < kVectorWidth; ++i) dweight[v][i] += other[i];
    }
  }
}

// Both roundings keep the order of magnitudes.
template <class R, class T>
__device__ void raise_gradient_abs_max(const BackwardArgs<R, T>& args, float largest) {
  if (args.abs_max == nullptr) return;
  const float stored = rounded<R>(largest);
  raise_abs_max(args.abs_max, args.dresidual_cast != nullptr ? rounded<T>(stored) : stored);
}

// A block owns 64 tokens. Its teams take kRows of them at a time, in bf16 with the next kRows on their way through
// shared memory; a thread owns kVectors vectors of the columns, with their weights and weight gradients in registers.
// Traffic a column: dy, x, dresidual read, dresidual written: 8 bytes in bf16, 14 with an f32 stream (2 more for the
// cast copy, 2 or 4 fewer when no gradient comes from above), plus 1/16 byte of partials.
// Why both ways: heuristics/rows.h.
template <class R, class T, int kVectors, int kRows>
__global__ void __launch_bounds__(kMaxTeamThreads) rms_norm_backward_kernel(BackwardArgs<R, T> args) {
  extern __shared__ uint4 stages[];
  __shared__ float shared[2][kRows][kMaxTeamThreads / kWarpSize];
  const Slots slots(stages);
  const int vectors = args.columns / kVectorWidth;
  float weight[kVectors][kVectorWidth] = {};
  float dweight[kVectors][kVectorWidth] = {};
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
    if (vector < vectors) load_floats(args.weight + vector * kVectorWidth, weight[v]);
  }
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * op::kRmsNormRowsPerBlock;
  const int64_t end = min(begin + op::kRmsNormRowsPerBlock, args.rows);
  const int step = kRows * static_cast<int>(blockDim.y);
  const int ahead = kRows * static_cast<int>(threadIdx.y);
  if constexpr (kIsStaged<R>) fetch_rows<R, T, kVectors, kRows>(args, slots, 0, begin + ahead, end);
  int stage = 0;
  float largest = 0;
#pragma unroll 1
  for (int64_t block_first = begin; block_first < end; block_first += step, stage ^= 1) {
    const int64_t first = block_first + ahead;
    if constexpr (kIsStaged<R>) fetch_rows<R, T, kVectors, kRows>(args, slots, stage ^ 1, first + step, end);
    float rstd[kRows];
    float dot[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) rstd[r] = first + r < end ? args.rstd[first + r] : 0.0f;
    HeldRows<R, T, kVectors, kRows> rows;
    if constexpr (kIsStaged<R>) {
      copy_async_wait<1>();
      read_rows(args, slots, stage, rows);
    } else {
      load_rows(args, first, end, rows);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < kVectorWidth; ++i) {
          dot[r] += weight[v][i] * rows.dy[r][v][i] * rows.x[r][v][i];
          dweight[v][i] += rows.dy[r][v][i] * rows.x[r][v][i] * rstd[r];
        }
      }
    }
    team_sums<kRows>(dot, shared[stage]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float coefficient = dot[r] / static_cast<float>(args.columns) * rstd[r] * rstd[r];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        keep_packed(rows.dy[r][v]);
        keep_packed(rows.x[r][v]);
        keep_packed(rows.dresidual[r][v]);
        const int vector = static_cast<int>(threadIdx.x + v * blockDim.x);
        if (vector >= vectors || first + r >= end) continue;
        const int64_t at = (first + r) * args.columns + vector * kVectorWidth;
        float values[kVectorWidth];
#pragma unroll
        for (int i = 0; i < kVectorWidth; ++i) {
          values[i] =
              rows.dresidual[r][v][i] + rstd[r] * (weight[v][i] * rows.dy[r][v][i] - rows.x[r][v][i] * coefficient);
        }
        largest = larger_magnitude(largest, values);
        store_floats(args.dresidual + at, values);
        if (args.dresidual_cast == nullptr) continue;
#pragma unroll
        for (int i = 0; i < kVectorWidth; ++i) values[i] = rounded<R>(values[i]);
        store_floats(args.dresidual_cast + at, values);
      }
    }
  }
  raise_gradient_abs_max<R, T>(args, largest);
  if (blockDim.y > 1) gather_teams(dweight, reinterpret_cast<float*>(stages));
  if (threadIdx.y > 0) return;
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
  float largest = 0;
  for (int c = static_cast<int>(threadIdx.x); c < args.columns; c += kAnyThreads) {
    const float above = args.first ? 0.0f : as_float(args.dresidual[start + c]);
    const float gradient =
        above + rstd * (args.weight[c] * as_float(args.dy[start + c]) - as_float(args.x[start + c]) * coefficient);
    args.dresidual[start + c] = from_float<R>(gradient);
    if (args.dresidual_cast != nullptr) args.dresidual_cast[start + c] = from_float<T>(rounded<R>(gradient));
    largest = larger_magnitude(largest, gradient);
  }
  raise_gradient_abs_max<R, T>(args, largest);
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
