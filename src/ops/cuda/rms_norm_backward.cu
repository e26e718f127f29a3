// SPDX-License-Identifier: Apache-2.0
// Gradient of RMSNorm, added in place to the residual gradient. Weight gradients leave as a few partial rows, which a
// second kernel adds in order: no atomics.
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

template <class R, class T>
__global__ void __launch_bounds__(kNormMaxThreads, 1) rms_norm_backward_kernel(BackwardArgs<R, T> args, int stages);
template <class R, class T>
__global__ void rms_norm_backward_any_kernel(BackwardArgs<R, T> args);
template <class R, class T>
__global__ void rms_norm_dweight_any_kernel(BackwardArgs<R, T> args);

inline constexpr int kAnyThreads = 256;

/// A thread has kGroups groups of kGroupWidth neighbouring columns, apart from each other by the team's width: a warp's
/// accesses to the stream are 16 bytes a lane and contiguous, whatever its elements.
template <class R>
inline constexpr int kGroupWidth = 16 / static_cast<int>(sizeof(R));
template <class R>
inline constexpr int kGroups = kVectorWidth / kGroupWidth<R>;

/// Bytes that a thread copies ahead of one row: of dy, x and dresidual.
template <class R, class T>
inline constexpr int kRowBytes = kVectorWidth* static_cast<int>(sizeof(T) + 2 * sizeof(R));

/// Returns how many partial rows of the weight gradient it leaves.
template <class R, class T>
int64_t launch_backward(const BackwardArgs<R, T>& args, const DeviceContext& context) {
  constexpr std::string_view kName = op::RmsNormBackward<Tensor>::kName;
  const RmsNormBackwardShape shape =
      rms_norm_backward_shape({.columns = args.columns,
                               .max_blocks = ceil_div(args.rows, op::kRmsNormRowsPerBlock),
                               .row_bytes_of_thread = kRowBytes<R, T>,
                               .shared_bytes = context.shared_bytes_per_block,
                               .num_multiprocessors = context.num_multiprocessors});
  if (shape.teams == 0) {
    const int64_t parts = ceil_div(args.rows, op::kRmsNormRowsPerBlock);
    const dim3 dweight_grid(grid_size(kName, parts), static_cast<unsigned>(ceil_div(args.columns, kAnyThreads)));
    rms_norm_dweight_any_kernel<R, T><<<dweight_grid, kAnyThreads, 0, context.stream>>>(args);
    rms_norm_backward_any_kernel<R, T><<<grid_size(kName, args.rows), kAnyThreads, 0, context.stream>>>(args);
    check_launch(kName);
    return parts;
  }
  const auto kernel = rms_norm_backward_kernel<R, T>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes), kName);
  const dim3 block(static_cast<unsigned>(shape.threads), static_cast<unsigned>(shape.teams));
  kernel<<<grid_size(kName, shape.blocks), block, static_cast<size_t>(shape.shared_bytes), context.stream>>>(
      args, shape.stages);
  check_launch(kName);
  return shape.blocks;
}

}  // namespace

void CudaBackend::run(const op::RmsNormBackward<Tensor>& op) {
  int64_t parts = 0;
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
    if (args.rows > 0) parts = launch_backward(args, context_);
  });
  launch_column_sum(ColumnSum{.op = op.kName,
                              .out = op.dweight.as<float>(),
                              .partials = op.partials.as<float>(),
                              .parts = parts,
                              .columns = op.x.columns(),
                              .stride = op.x.columns(),
                              .accumulate = op.accumulate},
                    context_.stream);
}

namespace {

/// A barrier of the calling thread's team.
__device__ void team_barrier() {
  asm volatile("barrier.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
}

// Sum over the team; `shared` alternates between two buffers, so one barrier is enough.
__device__ float team_sum(float value, float* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int num_warps = static_cast<int>(blockDim.x) / kWarpSize;
  const int first_warp = static_cast<int>(threadIdx.y) * num_warps;
  value = warp_sum(value);
  if (lane == 0) shared[first_warp + static_cast<int>(threadIdx.x) / kWarpSize] = value;
  team_barrier();
  return warp_sum(lane < num_warps ? shared[first_warp + lane] : 0.0f);
}

/// Where a thread's copies lie in shared memory: everybody's group g of a tensor's row together, so that a warp's
/// accesses are contiguous; each thread reads only what it copied, which takes no barrier.
template <class R, class T>
class Slots {
 public:
  __device__ explicit Slots(unsigned char* base)
      : base_(base),
        thread_(static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x)),
        threads_(static_cast<int>(blockDim.x * blockDim.y)) {}

  __device__ Pack<T, kGroupWidth<R>>& dy(int row, int group) const { return at<T>(row, 0, group); }
  __device__ Pack<R, kGroupWidth<R>>& x(int row, int group) const { return at<R>(row, sizeof(T), group); }
  __device__ Pack<R, kGroupWidth<R>>& dresidual(int row, int group) const {
    return at<R>(row, sizeof(T) + sizeof(R), group);
  }

 private:
  /// `before`: bytes a column of the tensors in front.
  template <class E>
  __device__ Pack<E, kGroupWidth<R>>& at(int row, size_t before, int group) const {
    constexpr int kBytes = kGroupWidth<R> * static_cast<int>(sizeof(E));
    const int tensor = row * kRowBytes<R, T> + kVectorWidth * static_cast<int>(before);
    return *reinterpret_cast<Pack<E, kGroupWidth<R>>*>(base_ + tensor * threads_ +
                                                       (group * threads_ + thread_) * kBytes);
  }

  unsigned char* base_;
  int thread_;
  int threads_;
};

template <class E, int kWidth>
__device__ void copy_pack(Pack<E, kWidth>& slot, const E* source, bool exists) {
  if constexpr (sizeof slot == 16) {
    copy_async_16(shared_address(&slot), source, exists);
  } else {
    static_assert(sizeof slot == 8);
    copy_async_8(shared_address(&slot), source, exists);
  }
}

__device__ int column_of(int group, int width) {
  return (group * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * width;
}

// Starts the copies of a row into a stage; what lies outside of the tensor becomes 0.
template <class R, class T>
__device__ void fetch_row(const BackwardArgs<R, T>& args, const Slots<R, T>& slots, int stage, int64_t row,
                          int64_t end) {
#pragma unroll
  for (int g = 0; g < kGroups<R>; ++g) {
    const int column = column_of(g, kGroupWidth<R>);
    const bool exists = row < end && column < args.columns;
    const int64_t at = exists ? row * args.columns + column : 0;
    copy_pack(slots.dy(stage, g), args.dy + at, exists);
    copy_pack(slots.x(stage, g), args.x + at, exists);
    if (!args.first) copy_pack(slots.dresidual(stage, g), args.dresidual + at, exists);
  }
  copy_async_commit();
}

// Adds the teams' weight gradients in order; the first team has the sum. `room` is the block's shared memory.
template <int kCount, int kWidth>
__device__ void gather_teams(float (&dweight)[kCount][kWidth], float* room) {
  copy_async_wait<0>();
  __syncthreads();
  const auto place_of = [&](unsigned team, int g) {
    return room + ((team * kCount + static_cast<unsigned>(g)) * blockDim.x + threadIdx.x) * kWidth;
  };
#pragma unroll
  for (int g = 0; g < kCount; ++g) store_floats(place_of(threadIdx.y, g), dweight[g]);
  __syncthreads();
  if (threadIdx.y > 0) return;
  for (unsigned team = 1; team < blockDim.y; ++team) {
#pragma unroll
    for (int g = 0; g < kCount; ++g) {
      float other[kWidth];
      load_floats(place_of(team, g), other);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) dweight[g][i] += other[i];
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

// A block owns a slice of the rows. Its teams take one of them at a time, each team at its own pace, with the next one
// on its way through shared memory; a thread owns eight columns, with their weights and weight gradients in registers.
// Traffic a column: dy, x, dresidual read, dresidual written: 8 bytes in bf16, 14 with an f32 stream (2 more for the
// cast copy, 2 or 4 fewer when no gradient comes from above), and 4 bytes of partials a block.
// Tried and lost: two rows of a team at a time (1 to 4 %), a third and fourth stage (2 to 5 %: what is on its way when
// the kernel begins and ends is not hidden), eight neighbouring f32 a thread (28 %: each access takes half of its
// sectors).
template <class R, class T>
__global__ void __launch_bounds__(kNormMaxThreads, 1) rms_norm_backward_kernel(BackwardArgs<R, T> args, int stages) {
  constexpr int kWidth = kGroupWidth<R>;
  extern __shared__ __align__(16) unsigned char staged[];
  __shared__ float shared[2][kNormMaxThreads / kWarpSize];
  const Slots<R, T> slots(staged);
  const float inverse_columns = 1.0f / static_cast<float>(args.columns);
  float weight[kGroups<R>][kWidth] = {};
  float dweight[kGroups<R>][kWidth] = {};
#pragma unroll
  for (int g = 0; g < kGroups<R>; ++g) {
    if (column_of(g, kWidth) < args.columns) load_floats(args.weight + column_of(g, kWidth), weight[g]);
  }
  const int64_t end = args.rows * (blockIdx.x + 1) / gridDim.x;
  const int ahead = (stages - 1) * static_cast<int>(blockDim.y);
  int64_t row = args.rows * blockIdx.x / gridDim.x + threadIdx.y;
  if (stages == 2) fetch_row(args, slots, 0, row, end);
  int stage = 0;
  int buffer = 0;
  float largest = 0;
#pragma unroll 1
  for (; row < end; row += blockDim.y, buffer ^= 1, stage = stages - 1 - stage) {
    fetch_row(args, slots, stages - 1 - stage, row + ahead, end);
    const float rstd = args.rstd[row];
    float dot = 0;
    if (stages == 2) {
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
#pragma unroll
    for (int g = 0; g < kGroups<R>; ++g) {
      const Pack dy = slots.dy(stage, g);
      const Pack x = slots.x(stage, g);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        dot += weight[g][i] * dy[i] * x[i];
        dweight[g][i] += dy[i] * x[i] * rstd;
      }
    }
    const float coefficient = team_sum(dot, shared[buffer]) * inverse_columns * rstd * rstd;
#pragma unroll
    for (int g = 0; g < kGroups<R>; ++g) {
      if (column_of(g, kWidth) >= args.columns) continue;
      // Read again: held over the barrier, they would be too many registers for 1,024 threads.
      const Pack dy = slots.dy(stage, g);
      const Pack x = slots.x(stage, g);
      Pack<R, kWidth> above{};
      if (!args.first) above = slots.dresidual(stage, g);
      const int64_t at = row * args.columns + column_of(g, kWidth);
      float values[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        values[i] = above[i] + rstd * (weight[g][i] * dy[i] - x[i] * coefficient);
      }
      largest = larger_magnitude(largest, values);
      store_floats(args.dresidual + at, values);
      if (args.dresidual_cast == nullptr) continue;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] = rounded<R>(values[i]);
      store_floats(args.dresidual_cast + at, values);
    }
  }
  raise_gradient_abs_max<R, T>(args, largest);
  if (blockDim.y > 1) gather_teams(dweight, reinterpret_cast<float*>(staged));
  if (threadIdx.y > 0) return;
#pragma unroll
  for (int g = 0; g < kGroups<R>; ++g) {
    const int column = column_of(g, kWidth);
    if (column >= args.columns) continue;
    store_floats(args.partials + static_cast<int64_t>(blockIdx.x) * args.columns + column, dweight[g]);
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
