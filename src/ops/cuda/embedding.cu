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

/// The sort's result: token numbers grouped by id, in token order inside a group. Where a group lies varies from run to
/// run, its inside does not, and nothing else reaches the result.
struct SortedIds {
  const int32_t* ids;
  int32_t* ranks;   // [N] number of earlier tokens of the same id; for the first of a group -1 - the group's size
  int32_t* starts;  // [V] first sorted position of an id's group; [V] one more entry: number of tokens with known ids
  int32_t* order;   // [N]
  int64_t tokens;
  int64_t vocab;

  __device__ bool is_known(int id) const { return id >= 0 && id < vocab; }
};

inline constexpr int kRankThreads = 128;
inline constexpr int kRankTile = 1024;
inline constexpr int kRankChunk = 4096;
inline constexpr int kTokenThreads = 256;
__global__ void __launch_bounds__(kRankThreads) rank_kernel(SortedIds sorted);
__global__ void __launch_bounds__(kTokenThreads) place_groups_kernel(SortedIds sorted);
__global__ void __launch_bounds__(kTokenThreads) scatter_kernel(SortedIds sorted);

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
  // Ranks and starts lie side by side.
  const auto counters = static_cast<size_t>(sorted.tokens + sorted.vocab + 1);
  check(cudaMemsetAsync(sorted.ranks, 0, counters * sizeof(int32_t), stream), kName);
  const dim3 rank_grid(grid_size(kName, ceil_div(sorted.tokens, kRankThreads)),
                       static_cast<unsigned>(ceil_div(sorted.tokens, kRankChunk)));
  rank_kernel<<<rank_grid, kRankThreads, 0, stream>>>(sorted);
  const unsigned token_grid = grid_size(kName, ceil_div(sorted.tokens, kTokenThreads));
  place_groups_kernel<<<token_grid, kTokenThreads, 0, stream>>>(sorted);
  scatter_kernel<<<token_grid, kTokenThreads, 0, stream>>>(sorted);
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
  if (op.remainder.has_value()) {
    throw InternalError(op.kName, "the CUDA backend looks up bf16 copies, not their remainders");
  }
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
                         .starts = scratch + tokens,
                         .order = scratch + tokens + op.dtable.rows() + 1,
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
// some 40 us for 32,768 tokens, and no order of events to depend on. A block compares 128 tokens with 4,096 earlier
// ones. Also counts each id, for place_groups_kernel.
__global__ void __launch_bounds__(kRankThreads) rank_kernel(SortedIds sorted) {
  __shared__ int4 tile[kRankTile / 4];
  const int64_t block_first = static_cast<int64_t>(blockIdx.x) * kRankThreads;
  const int64_t chunk_first = static_cast<int64_t>(blockIdx.y) * kRankChunk;
  const int64_t block_end = min(block_first + kRankThreads, sorted.tokens);
  const int64_t chunk_end = min(chunk_first + kRankChunk, block_end);
  const int64_t token = block_first + threadIdx.x;
  const int id = token < sorted.tokens ? sorted.ids[token] : -1;
  int rank = 0;
  for (int64_t first = chunk_first; first < chunk_end; first += kRankTile) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kRankTile; i += kRankThreads) {
      reinterpret_cast<int*>(tile)[i] = first + i < chunk_end ? sorted.ids[first + i] : -1;
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
  if (!sorted.is_known(id)) return;
  if (rank > 0) atomicAdd(&sorted.ranks[token], rank);
  if (blockIdx.y == 0) atomicAdd(&sorted.starts[id], 1);
}

// The first token of each id takes room for its group from one counter, a warp at a time.
__global__ void __launch_bounds__(kTokenThreads) place_groups_kernel(SortedIds sorted) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kTokenThreads + threadIdx.x;
  const int id = token < sorted.tokens ? sorted.ids[token] : -1;
  const bool is_first = sorted.is_known(id) && sorted.ranks[token] == 0;
  const int size = is_first ? sorted.starts[id] : 0;
  int inclusive = size;
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int below = __shfl_up_sync(kFullWarp, inclusive, distance);
    if (lane >= distance) inclusive += below;
  }
  int base = 0;
  if (lane == kWarpSize - 1 && inclusive > 0) base = atomicAdd(&sorted.starts[sorted.vocab], inclusive);
  base = __shfl_sync(kFullWarp, base, kWarpSize - 1);
  if (!is_first) return;
  sorted.starts[id] = base + inclusive - size;
  sorted.ranks[token] = -1 - size;
}

__global__ void __launch_bounds__(kTokenThreads) scatter_kernel(SortedIds sorted) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kTokenThreads + threadIdx.x;
  if (token >= sorted.tokens || !sorted.is_known(sorted.ids[token])) return;
  const int rank = max(sorted.ranks[token], 0);
  sorted.order[sorted.starts[sorted.ids[token]] + rank] = static_cast<int32_t>(token);
}

// A block a token; the block of an id's first token adds the whole run in token order, the others leave at once.
// Traffic: 2 bytes an element of dout in bf16, 4 written (8 with accumulation) an element of each row that is named.
template <class T, int kWidth>
__global__ void short_runs_kernel(GradientArgs<T> args) {
  const int64_t token = blockIdx.x;
  const int size = -1 - args.sorted.ranks[token];
  if (size <= 0 || size > kShortRun) return;
  const int id = args.sorted.ids[token];
  const int begin = args.sorted.starts[id];
  const int end = begin + size;
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
  const int end = begin - 1 - args.sorted.ranks[args.sorted.order[begin]];
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
