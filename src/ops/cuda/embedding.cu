// SPDX-License-Identifier: Apache-2.0
// Token lookup, and its gradient by a stable counting sort on the device: every table row is summed by one owner in an
// order that depends on the ids alone, without floating-point atomics.
#include <algorithm>

#include "core/step_state.h"
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/heuristics/rows.h"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

template <class Out, class Table>
struct LookupArgs {
  Out* out;
  const Table* table;
  const int32_t* ids;
  StepState* state;
  int64_t vocab;
  int columns;
};

template <class Out, class Table, int kWidth>
__global__ void embedding_forward_kernel(LookupArgs<Out, Table> args);

/// The sort's result: token numbers grouped by id, in token order inside a group; group v is order[starts[v]] ..
/// order[starts[v + 1]].
struct SortedIds {
  const int32_t* ids;
  int32_t* ranks;   // [N] earlier tokens of the same id, -1 for ids outside the table
  int32_t* order;   // [N]
  int32_t* starts;  // [V + 1]
  int64_t tokens;
  int64_t vocab;
};

inline constexpr int kRankThreads = 128;
inline constexpr int kRankTile = 1024;
inline constexpr int kScanThreads = 1024;
__global__ void __launch_bounds__(kRankThreads) rank_kernel(SortedIds sorted);
__global__ void __launch_bounds__(kScanThreads) scan_kernel(SortedIds sorted);
__global__ void scatter_kernel(SortedIds sorted);

template <class T>
struct GradientArgs {
  SortedIds sorted;
  float* dtable;
  const T* dout;
  int columns;
  bool accumulate;
};

/// Longest run of equal ids that one block adds on its own; longer ones go to the kernel with 16 warps a column slice.
inline constexpr int kShortRun = 64;
inline constexpr int kLongRunWarps = 16;
template <class T, int kWidth>
__global__ void short_runs_kernel(GradientArgs<T> args);
template <class T, int kWidth>
__global__ void __launch_bounds__(kLongRunWarps* kWarpSize) long_runs_kernel(GradientArgs<T> args);

template <class T, int kWidth>
void launch_gradient(const GradientArgs<T>& args, cudaStream_t stream) {
  constexpr std::string_view kName = op::EmbeddingBackward<Tensor>::kName;
  const int64_t tokens = args.sorted.tokens;
  const int threads = std::min(threads_for(args.columns / kWidth, 1), kMaxTeamThreads);
  short_runs_kernel<T, kWidth><<<grid_size(kName, tokens), threads, 0, stream>>>(args);
  const dim3 grid(grid_size(kName, ceil_div(tokens, kShortRun)),
                  static_cast<unsigned>(ceil_div(args.columns, kWarpSize * kWidth)));
  long_runs_kernel<T, kWidth><<<grid, kLongRunWarps * kWarpSize, 0, stream>>>(args);
  check_launch(kName);
}

void launch_sort(const SortedIds& sorted, cudaStream_t stream) {
  constexpr std::string_view kName = op::EmbeddingBackward<Tensor>::kName;
  check(cudaMemsetAsync(sorted.starts, 0, static_cast<size_t>(sorted.vocab + 1) * sizeof(int32_t), stream), kName);
  rank_kernel<<<grid_size(kName, ceil_div(sorted.tokens, kRankThreads)), kRankThreads, 0, stream>>>(sorted);
  scan_kernel<<<1, kScanThreads, 0, stream>>>(sorted);
  scatter_kernel<<<grid_size(kName, ceil_div(sorted.tokens, 256)), 256, 0, stream>>>(sorted);
  check_launch(kName);
}

template <class Out, class Table>
void launch_lookup(const op::EmbeddingForward<Tensor>& op, cudaStream_t stream) {
  const LookupArgs<Out, Table> args{.out = op.out.as<Out>(),
                                    .table = op.table.as<Table>(),
                                    .ids = op.ids.as<int32_t>(),
                                    .state = static_cast<StepState*>(op.state.data),
                                    .vocab = op.table.rows(),
                                    .columns = static_cast<int>(op.table.columns())};
  const unsigned grid = grid_size(op.kName, op.out.rows());
  const bool is_wide = args.columns % kVectorWidth == 0;
  const int threads = std::min(threads_for(args.columns / (is_wide ? kVectorWidth : 1), 1), kMaxTeamThreads);
  if (is_wide) {
    embedding_forward_kernel<Out, Table, kVectorWidth><<<grid, threads, 0, stream>>>(args);
  } else {
    embedding_forward_kernel<Out, Table, 1><<<grid, threads, 0, stream>>>(args);
  }
  check_launch(op.kName);
}

}  // namespace

void CudaBackend::run(const op::EmbeddingForward<Tensor>& op) {
  if (op.out.num_elements() == 0) return;
  visit_float_dtype(op.kName, op.out.dtype, [&](auto out_tag) {
    visit_float_dtype(op.kName, op.table.dtype, [&](auto table_tag) {
      launch_lookup<typename decltype(out_tag)::type, typename decltype(table_tag)::type>(op, context_.stream);
    });
  });
}

void CudaBackend::run(const op::EmbeddingBackward<Tensor>& op) {
  auto* scratch = op.scratch.as<int32_t>();
  const int64_t tokens = op.ids.num_elements();
  const SortedIds sorted{.ids = op.ids.as<int32_t>(),
                         .ranks = scratch,
                         .order = scratch + tokens,
                         .starts = scratch + 2 * tokens,
                         .tokens = tokens,
                         .vocab = op.dtable.rows()};
  if (!op.accumulate) {
    check(cudaMemsetAsync(op.dtable.data, 0, static_cast<size_t>(op.dtable.bytes()), context_.stream), op.kName);
  }
  if (op.dout.num_elements() == 0) return;
  launch_sort(sorted, context_.stream);
  visit_float_dtype(op.kName, op.dout.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const GradientArgs<T> args{.sorted = sorted,
                               .dtable = op.dtable.as<float>(),
                               .dout = op.dout.as<T>(),
                               .columns = static_cast<int>(op.dout.columns()),
                               .accumulate = op.accumulate};
    if (args.columns % kVectorWidth == 0) {
      launch_gradient<T, kVectorWidth>(args, context_.stream);
    } else {
      launch_gradient<T, 1>(args, context_.stream);
    }
  });
}

namespace {

// A block a token: 4 bytes of traffic an element in bf16, table rows that repeat come from L2.
template <class Out, class Table, int kWidth>
__global__ void embedding_forward_kernel(LookupArgs<Out, Table> args) {
  const int64_t token = blockIdx.x;
  const int id = args.ids[token];
  const bool is_known = id >= 0 && id < args.vocab;
  if (!is_known && threadIdx.x == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&args.state->bad_tokens), 1ull);
  }
  const Table* source = args.table + static_cast<int64_t>(id) * args.columns;
  Out* out = args.out + token * args.columns;
  for (int c = static_cast<int>(threadIdx.x) * kWidth; c < args.columns; c += static_cast<int>(blockDim.x) * kWidth) {
    float values[kWidth] = {};
    if (is_known) load_floats(source + c, values);
    store_floats(out + c, values);
  }
}

// rank = number of earlier tokens with the same id, counted by comparing with every one of them: N^2 / 2 comparisons,
// some 30 us for 16,384 tokens and 2 ms for 131,072, and no order of events to depend on. Also counts each id.
__global__ void __launch_bounds__(kRankThreads) rank_kernel(SortedIds sorted) {
  __shared__ int4 tile[kRankTile / 4];
  const int64_t block_first = static_cast<int64_t>(blockIdx.x) * kRankThreads;
  const int64_t token = block_first + threadIdx.x;
  const int id = token < sorted.tokens ? sorted.ids[token] : -1;
  const bool is_known = id >= 0 && id < sorted.vocab;
  const int64_t block_end = min(block_first + kRankThreads, sorted.tokens);
  int rank = 0;
  for (int64_t first = 0; first < block_end; first += kRankTile) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kRankTile; i += kRankThreads) {
      reinterpret_cast<int*>(tile)[i] = first + i < block_end ? sorted.ids[first + i] : -1;
    }
    __syncthreads();
    const int64_t earlier = token - first;
    if (earlier >= kRankTile) {
#pragma unroll 8
      for (int i = 0; i < kRankTile / 4; ++i) {
        const int4 other = tile[i];
        rank += (other.x == id) + (other.y == id) + (other.z == id) + (other.w == id);
      }
    } else {
      for (int i = 0; i < earlier; ++i) rank += reinterpret_cast<const int*>(tile)[i] == id;
    }
  }
  if (token >= sorted.tokens) return;
  sorted.ranks[token] = is_known ? rank : -1;
  if (is_known) atomicAdd(&sorted.starts[id], 1);
}

// One block turns counts into starts in place (exclusive prefix sum over V + 1 entries, each thread a stretch of them).
__global__ void __launch_bounds__(kScanThreads) scan_kernel(SortedIds sorted) {
  __shared__ int totals[kScanThreads / kWarpSize];
  const int64_t entries = sorted.vocab + 1;
  int carry = 0;
  for (int64_t first = 0; first < entries; first += kScanThreads * 4) {
    const int64_t at = first + threadIdx.x * 4;
    int counts[4];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      counts[i] = at + i < entries ? sorted.starts[at + i] : 0;
      sum += counts[i];
    }
    // Inclusive sums of the warp, then of the warps.
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    int inclusive = sum;
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      const int below = __shfl_up_sync(kFullWarp, inclusive, distance);
      if (lane >= distance) inclusive += below;
    }
    if (lane == kWarpSize - 1) totals[warp] = inclusive;
    __syncthreads();
    int before = carry;
    int all = carry;
    for (int w = 0; w < kScanThreads / kWarpSize; ++w) {
      if (w < warp) before += totals[w];
      all += totals[w];
    }
    int start = before + inclusive - sum;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (at + i < entries) sorted.starts[at + i] = start;
      start += counts[i];
    }
    carry = all;
    __syncthreads();
  }
}

__global__ void scatter_kernel(SortedIds sorted) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (token >= sorted.tokens) return;
  const int rank = sorted.ranks[token];
  if (rank >= 0) sorted.order[sorted.starts[sorted.ids[token]] + rank] = static_cast<int32_t>(token);
}

// A block a token; the block of an id's first token adds the whole run in token order, the others leave at once.
// Traffic: 2 bytes an element of dout in bf16, 4 written (8 with accumulation) an element of each row that is named.
template <class T, int kWidth>
__global__ void short_runs_kernel(GradientArgs<T> args) {
  const int64_t token = blockIdx.x;
  if (args.sorted.ranks[token] != 0) return;
  const int id = args.sorted.ids[token];
  const int begin = args.sorted.starts[id];
  const int end = args.sorted.starts[id + 1];
  if (end - begin > kShortRun) return;
  float* row = args.dtable + static_cast<int64_t>(id) * args.columns;
  for (int c = static_cast<int>(threadIdx.x) * kWidth; c < args.columns; c += static_cast<int>(blockDim.x) * kWidth) {
    float sums[kWidth] = {};
    if (args.accumulate) load_floats(row + c, sums);
#pragma unroll 4
    for (int i = begin; i < end; ++i) {
      const int64_t source = args.sorted.order[i];
      const Pack<T, kWidth> pack = load_pack<kWidth>(args.dout + source * args.columns + c);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[k] += pack[k];
    }
    store_floats(row + c, sums);
  }
}

// Runs longer than kShortRun contain a sorted position that is a multiple of kShortRun; the block of the first such
// position owns the run for one slice of columns. Warp w adds elements w, w + 16, ... in order, then the warps' sums
// are added in order: still one owner and an order fixed by the ids.
template <class T, int kWidth>
__global__ void __launch_bounds__(kLongRunWarps* kWarpSize) long_runs_kernel(GradientArgs<T> args) {
  __shared__ __align__(16) float shared[kLongRunWarps][kWarpSize * kWidth];
  const int position = static_cast<int>(blockIdx.x) * kShortRun;
  const int known = args.sorted.starts[args.sorted.vocab];
  if (position >= known) return;
  const int id = args.sorted.ids[args.sorted.order[position]];
  const int begin = args.sorted.starts[id];
  const int end = args.sorted.starts[id + 1];
  if (end - begin <= kShortRun || position - begin >= kShortRun) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int first_column = static_cast<int>(blockIdx.y) * kWarpSize * kWidth;
  const int column = first_column + lane * kWidth;
  float sums[kWidth] = {};
  if (column < args.columns) {
#pragma unroll 4
    for (int i = begin + warp; i < end; i += kLongRunWarps) {
      const int64_t source = args.sorted.order[i];
      const Pack<T, kWidth> pack = load_pack<kWidth>(args.dout + source * args.columns + column);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[k] += pack[k];
    }
  }
  store_floats(&shared[warp][lane * kWidth], sums);
  __syncthreads();
  float* row = args.dtable + static_cast<int64_t>(id) * args.columns;
  for (int c = static_cast<int>(threadIdx.x); c < kWarpSize * kWidth; c += kLongRunWarps * kWarpSize) {
    if (first_column + c >= args.columns) return;
    float total = args.accumulate ? row[first_column + c] : 0.0f;
#pragma unroll
    for (int w = 0; w < kLongRunWarps; ++w) total += shared[w][c];
    row[first_column + c] = total;
  }
}

}  // namespace
}  // namespace litespark::cuda
