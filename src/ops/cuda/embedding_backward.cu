// SPDX-License-Identifier: Apache-2.0
// Gradient of the token lookup. Tokens are grouped by id through integer counters; then one owner adds each table row
// in the order of its tokens. Neither the order in which blocks ran nor where a group lies reaches the result, and no
// floating-point number passes through an atomic.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/device/reduce.cuh"
#include "ops/cuda/device/vector.cuh"
#include "ops/cuda/heuristics/embedding.h"
#include "ops/cuda/launch.h"

namespace litespark::cuda {
namespace {

/// Tokens grouped by id; the order of groups, and of tokens inside one, is whatever the counters gave.
struct TokenGroups {
  const int32_t* ids;
  int32_t* slots;   // [N] place of a token in its group; in place 0 of a placed group -1 - the group's size
  int32_t* starts;  // [V] tokens of an id, once placed -1 - the group's first position; [V]: tokens with known ids
  int32_t* order;   // [N] tokens, grouped
  int64_t tokens;
  int64_t vocab;
  int64_t first_id;  // of the table

  __device__ bool is_known(int id) const { return id >= 0 && id < vocab; }
  /// The row of a token; -1: the table does not hold it.
  __device__ int id_of(int64_t token) const {
    const int64_t row = ids[token] - first_id;
    return row >= 0 && row < vocab ? static_cast<int>(row) : -1;
  }
};

inline constexpr int kTokenThreads = 256;
__global__ void __launch_bounds__(kTokenThreads) count_ids_kernel(TokenGroups groups);
__global__ void __launch_bounds__(kTokenThreads) place_groups_kernel(TokenGroups groups);
__global__ void __launch_bounds__(kTokenThreads) scatter_tokens_kernel(TokenGroups groups);

template <class T>
struct GradientArgs {
  TokenGroups groups;
  EmbeddingGradientGrid grid;
  float* dtable;
  const T* dout;
  int columns;
  bool accumulate;
};

inline constexpr int kGradientThreads = kGradientWarps * kWarpSize;
template <class T, int kWidth>
__global__ void __launch_bounds__(kGradientThreads) embedding_gradient_kernel(GradientArgs<T> args);

void launch_grouping(const TokenGroups& groups, cudaStream_t stream) {
  constexpr std::string_view kName = op::EmbeddingBackward<Tensor>::kName;
  check(cudaMemsetAsync(groups.starts, 0, static_cast<size_t>(groups.vocab + 1) * sizeof(int32_t), stream), kName);
  const unsigned grid = grid_size(kName, ceil_div(groups.tokens, kTokenThreads));
  count_ids_kernel<<<grid, kTokenThreads, 0, stream>>>(groups);
  place_groups_kernel<<<grid, kTokenThreads, 0, stream>>>(groups);
  scatter_tokens_kernel<<<grid, kTokenThreads, 0, stream>>>(groups);
  check_launch(kName);
}

template <class T, int kWidth>
void launch_gradient(GradientArgs<T> args, cudaStream_t stream) {
  constexpr std::string_view kName = op::EmbeddingBackward<Tensor>::kName;
  args.grid = embedding_gradient_grid({.tokens = args.groups.tokens,
                                       .vocab = args.groups.vocab,
                                       .columns = args.columns,
                                       .width = kWidth,
                                       .accumulate = args.accumulate});
  embedding_gradient_kernel<T, kWidth><<<grid_size(kName, args.grid.blocks()), kGradientThreads, 0, stream>>>(args);
  check_launch(kName);
}

}  // namespace

void CudaBackend::run(const op::EmbeddingBackward<Tensor>& op) {
  const int64_t tokens = op.ids.num_elements();
  if (tokens == 0) {
    if (op.accumulate) return;
    check(cudaMemsetAsync(op.dtable.data, 0, static_cast<size_t>(op.dtable.bytes()), context_.stream), op.kName);
    return;
  }
  auto* scratch = op.scratch.as<int32_t>();
  const TokenGroups groups{.ids = op.ids.as<int32_t>(),
                           .slots = scratch,
                           .starts = scratch + tokens,
                           .order = scratch + tokens + op.dtable.rows() + 1,
                           .tokens = tokens,
                           .vocab = op.dtable.rows(),
                           .first_id = op.first_id};
  launch_grouping(groups, context_.stream);
  visit_float_dtype(op.kName, op.dout.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const GradientArgs<T> args{.groups = groups,
                               .grid = {},
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

// Every token takes the next slot of its id's group; the tokens of one id in a warp ask together, so that a frequent
// id does not queue at its counter.
__global__ void __launch_bounds__(kTokenThreads) count_ids_kernel(TokenGroups groups) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kTokenThreads + threadIdx.x;
  const int id = token < groups.tokens ? groups.id_of(token) : -1;
  const bool is_known = groups.is_known(id);
  const unsigned peers = __match_any_sync(kFullWarp, is_known ? id : -1);
  const int leader = __ffs(static_cast<int>(peers)) - 1;
  int first = 0;
  if (is_known && lane == leader) first = atomicAdd(&groups.starts[id], __popc(peers));
  first = __shfl_sync(kFullWarp, first, leader);
  if (is_known) groups.slots[token] = first + __popc(peers & ((1u << lane) - 1));
}

// The token in slot 0 of each group takes room for it from one counter, a warp at a time.
__global__ void __launch_bounds__(kTokenThreads) place_groups_kernel(TokenGroups groups) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kTokenThreads + threadIdx.x;
  const int id = token < groups.tokens ? groups.id_of(token) : -1;
  const bool is_first = groups.is_known(id) && groups.slots[token] == 0;
  const int size = is_first ? groups.starts[id] : 0;
  int inclusive = size;
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int below = __shfl_up_sync(kFullWarp, inclusive, distance);
    if (lane >= distance) inclusive += below;
  }
  int base = 0;
  if (lane == kWarpSize - 1 && inclusive > 0) base = atomicAdd(&groups.starts[groups.vocab], inclusive);
  base = __shfl_sync(kFullWarp, base, kWarpSize - 1);
  if (!is_first) return;
  groups.starts[id] = -1 - (base + inclusive - size);
  groups.slots[token] = -1 - size;
}

__global__ void __launch_bounds__(kTokenThreads) scatter_tokens_kernel(TokenGroups groups) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kTokenThreads + threadIdx.x;
  if (token >= groups.tokens || !groups.is_known(groups.id_of(token))) return;
  const int slot = max(groups.slots[token], 0);
  groups.order[-1 - groups.starts[groups.id_of(token)] + slot] = static_cast<int32_t>(token);
}

/// A lane's columns of one table row.
template <class T, int kWidth>
struct RowSlice {
  const GradientArgs<T>& args;
  int column;

  __device__ RowSlice(const GradientArgs<T>& gradient, int slice)
      : args(gradient), column((slice * kWarpSize + static_cast<int>(threadIdx.x) % kWarpSize) * kWidth) {}

  __device__ bool exists() const { return column < args.columns; }
  __device__ float* row(int id) const { return args.dtable + static_cast<int64_t>(id) * args.columns + column; }
  /// What the row's sum starts from.
  __device__ void start(int id, float (&sums)[kWidth]) const {
    if (args.accumulate) {
      load_floats(row(id), sums);
    } else {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[i] = 0;
    }
  }
  __device__ Pack<T, kWidth> token(int64_t token) const {
    return load_pack<kWidth>(args.dout + token * args.columns + column);
  }
};

template <class T, int kWidth>
__device__ void add_pack(float (&sums)[kWidth], const Pack<T, kWidth>& pack) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums[i] += pack[i];
}

/// 32 positions of the grouped order, one a lane, each group's tokens put in ascending order.
struct RunWindow {
  int token = -1;
  int id = -1;
  int size = 0;  ///< of the run that begins here; 0 elsewhere

  // `sorted` is the warp's own room for 32 numbers.
  __device__ RunWindow(const TokenGroups& groups, int64_t first, int known, int32_t* sorted) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const bool exists = first + lane < known;
    if (exists) {
      token = groups.order[first + lane];
      id = groups.id_of(token);
      size = max(-1 - groups.slots[token], 0);
    }
    const unsigned begins = __ballot_sync(kFullWarp, size > 0);
    if (__ballot_sync(kFullWarp, size > 1) == 0) return;
    const int begin = kWarpSize - 1 - __clz(static_cast<int>(begins & ((2u << lane) - 1)));  // -1: before the window
    int rank = 0;
    for (int other = 0; other < kWarpSize; ++other) {
      const int other_begin = __shfl_sync(kFullWarp, begin, other);
      const int other_token = __shfl_sync(kFullWarp, exists ? token : INT32_MAX, other);
      rank += other_begin == begin && other_token < token ? 1 : 0;
    }
    if (exists && begin >= 0) sorted[begin + rank] = token;
    __syncwarp();
    if (exists && begin >= 0) token = sorted[lane];
  }
};

// One warp: the short runs that begin in one tile of positions, for one slice of columns, several of them under way.
// Traffic: 2 bytes an element of dout in bf16, 4 written (8 with accumulation) an element of each row that is named.
template <class T, int kWidth>
__device__ void add_short_runs(const GradientArgs<T>& args, int64_t item, int32_t* sorted) {
  constexpr int kBatch = 4;   // runs under way
  constexpr int kFirsts = 2;  // tokens of each
  const int64_t first = item / args.grid.slices * kRunTile;
  const int known = args.groups.starts[args.groups.vocab];
  if (first >= known) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const RunWindow window(args.groups, first, known, sorted);
  const RowSlice<T, kWidth> slice(args, static_cast<int>(item % args.grid.slices));
  unsigned owned = __ballot_sync(kFullWarp, window.size > 0 && window.size <= kShortRun && lane < kRunTile);
  while (owned != 0) {
    float sums[kBatch][kWidth];
    Pack<T, kWidth> packs[kBatch][kFirsts];
    int begins[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      begins[b] = __ffs(static_cast<int>(owned)) - 1;  // -1: no more
      owned &= owned - 1;
      if (begins[b] < 0) continue;
      const int size = __shfl_sync(kFullWarp, window.size, begins[b]);
      const int id = __shfl_sync(kFullWarp, window.id, begins[b]);
#pragma unroll
      for (int t = 0; t < kFirsts; ++t) {
        const int token = __shfl_sync(kFullWarp, window.token, begins[b] + t);
        if (t < size && slice.exists()) packs[b][t] = slice.token(token);
      }
      if (slice.exists()) slice.start(id, sums[b]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (begins[b] < 0) break;
      const int size = __shfl_sync(kFullWarp, window.size, begins[b]);
      const int id = __shfl_sync(kFullWarp, window.id, begins[b]);
#pragma unroll
      for (int t = 0; t < kFirsts; ++t) {
        if (t < size) add_pack(sums[b], packs[b][t]);
      }
#pragma unroll 4
      for (int t = kFirsts; t < size; ++t) {
        const int token = __shfl_sync(kFullWarp, window.token, begins[b] + t);
        if (slice.exists()) add_pack(sums[b], slice.token(token));
      }
      if (slice.exists()) store_floats(slice.row(id), sums[b]);
    }
  }
}

/// Tokens that a block sorts at once: one bit each.
inline constexpr int kSortedTokens = kGradientThreads * 32;

struct LongRun {
  int id;
  int begin;  // its first position
  int size;
};

template <int kWidth>
struct LongRunRoom {
  uint32_t bits[kGradientThreads];
  uint16_t order[kSortedTokens];
  int warp_totals[kGradientWarps];
  __align__(16) float sums[kGradientWarps][kWarpSize * kWidth];
};

// Leaves the run's tokens in [first, first + kSortedTokens), minus `first`, in ascending order in room.order; returns
// how many there are. One bit a token, then a prefix sum over the words: the work is that of reading the run.
template <int kWidth>
__device__ int sort_run(const TokenGroups& groups, const LongRun& run, int64_t first, LongRunRoom<kWidth>& room) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int warp = thread / kWarpSize;
  room.bits[thread] = 0;
  __syncthreads();
  for (int i = thread; i < run.size; i += kGradientThreads) {
    const int64_t token = groups.order[run.begin + i] - first;
    if (token >= 0 && token < kSortedTokens) atomicOr(&room.bits[token / 32], 1u << (token % 32));
  }
  __syncthreads();
  uint32_t bits = room.bits[thread];
  int inclusive = __popc(bits);
#pragma unroll
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int below = __shfl_up_sync(kFullWarp, inclusive, distance);
    if (lane >= distance) inclusive += below;
  }
  if (lane == kWarpSize - 1) room.warp_totals[warp] = inclusive;
  __syncthreads();
  int at = inclusive - __popc(bits);
  int total = 0;
#pragma unroll
  for (int w = 0; w < kGradientWarps; ++w) {
    if (w < warp) at += room.warp_totals[w];
    total += room.warp_totals[w];
  }
  for (; bits != 0; bits &= bits - 1) {
    room.order[at++] = static_cast<uint16_t>(thread * 32 + __ffs(static_cast<int>(bits)) - 1);
  }
  __syncthreads();
  return total;
}

// A block adds one run for one slice of columns: warp w takes tokens w, w + 8, ... of each sorted piece, then the
// warps' sums are added in order.
template <class T, int kWidth>
__device__ void add_long_run(const GradientArgs<T>& args, const LongRun& run, int slice_index,
                             LongRunRoom<kWidth>& room) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const RowSlice<T, kWidth> slice(args, slice_index);
  float sums[kWidth] = {};
  for (int64_t first = 0; first < args.groups.tokens; first += kSortedTokens) {
    const int count = sort_run(args.groups, run, first, room);
    if (slice.exists()) {
#pragma unroll 8
      for (int i = warp; i < count; i += kGradientWarps) add_pack(sums, slice.token(first + room.order[i]));
    }
    __syncthreads();
  }
  store_floats(&room.sums[warp][lane * kWidth], sums);
  __syncthreads();
  if (warp == 0 && slice.exists()) {
    slice.start(run.id, sums);
#pragma unroll
    for (int w = 0; w < kGradientWarps; ++w) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[i] += room.sums[w][lane * kWidth + i];
    }
    store_floats(slice.row(run.id), sums);
  }
  __syncthreads();
}

// One block: the long runs that begin near one of its candidate positions. Every warp looks for them, a lane a
// candidate, and all find the same.
template <class T, int kWidth>
__device__ void add_long_runs(const GradientArgs<T>& args, int64_t item, LongRunRoom<kWidth>& room) {
  const TokenGroups& groups = args.groups;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t position = (item / args.grid.slices * kLongCandidates + lane) * kShortRun;
  int id = -1;
  int begin = 0;
  int size = 0;
  if (lane < kLongCandidates && position < groups.starts[groups.vocab]) {
    id = groups.id_of(groups.order[position]);
    begin = -1 - groups.starts[id];
    if (position - begin < kShortRun) size = -1 - groups.slots[groups.order[begin]];
  }
  unsigned found = __ballot_sync(kFullWarp, size > kShortRun);
  for (; found != 0; found &= found - 1) {
    const int from = __ffs(static_cast<int>(found)) - 1;
    const LongRun run{.id = __shfl_sync(kFullWarp, id, from),
                      .begin = __shfl_sync(kFullWarp, begin, from),
                      .size = __shfl_sync(kFullWarp, size, from)};
    add_long_run(args, run, static_cast<int>(item % args.grid.slices), room);
  }
}

// One warp: zeros in the rows that no token names.
template <int kWidth, class T>
__device__ void clear_rows(const GradientArgs<T>& args, int64_t item) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int64_t id = item * kClearedRows; id < min((item + 1) * kClearedRows, args.groups.vocab); ++id) {
    if (args.groups.starts[id] != 0) continue;
    float* row = args.dtable + id * args.columns;
    constexpr int kCleared = kWidth > 1 ? 4 : 1;
    const float zeros[kCleared] = {};
    for (int c = lane * kCleared; c < args.columns; c += kWarpSize * kCleared) store_floats(row + c, zeros);
  }
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kGradientThreads) embedding_gradient_kernel(GradientArgs<T> args) {
  __shared__ LongRunRoom<kWidth> room;
  __shared__ int32_t sorted[kGradientWarps][kWarpSize];
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int64_t block = blockIdx.x;
  if (block < args.grid.long_blocks) {
    add_long_runs(args, block, room);
    return;
  }
  block -= args.grid.long_blocks;
  if (block < args.grid.short_blocks) {
    add_short_runs<T, kWidth>(args, block * kGradientWarps + warp, sorted[warp]);
    return;
  }
  clear_rows<kWidth>(args, (block - args.grid.short_blocks) * kGradientWarps + warp);
}

}  // namespace
}  // namespace litespark::cuda
