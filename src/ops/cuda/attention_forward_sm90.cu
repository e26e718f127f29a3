// SPDX-License-Identifier: Apache-2.0
// Attention forward for Hopper (Shah et al. 2024, "FlashAttention-3"): one warp copies tiles with the tensor memory
// accelerator, two warpgroups own 64 queries each, and the scores of the next key tile are computed by the tensor cores
// while the softmax of the current one runs. Probabilities never leave their registers.
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/attention_launch.cuh"
#include "ops/cuda/device/hopper_tile.cuh"
#include "ops/cuda/device/wgmma.cuh"
#include "ops/cuda/tensor_map.h"

namespace litespark::cuda {
namespace {

constexpr int kTile = 128;  // queries of a block, and keys of a tile
constexpr int kStages = 2;
constexpr int kScores = kTile / 2;  // accumulators of 64 x kTile scores in a thread
constexpr float kMasked = -INFINITY;

using Tile = DocumentTileOf<kTile>;
using Run = MetRows<kTile>;

/// Shared memory; its address is a multiple of 1024.
template <int kHeadDim>
struct Shared {
  bf16 queries[kTile * kHeadDim];
  bf16 keys[kStages][kTile * kHeadDim];
  bf16 values[kStages][kTile * kHeadDim];
  uint64_t queries_full;
  uint64_t keys_full[kStages], keys_empty[kStages];
  uint64_t values_full[kStages], values_empty[kStages];
};

/// Announces and starts the copy of kTile rows of one head.
template <int kHeadDim>
__device__ void load_tile_rows(bf16* tile, const CUtensorMap& map, BoxCoordinate at, uint64_t* full) {
  barrier_expect(shared_address(full), kTile * kHeadDim * 2);
  load_rows<kTile, kHeadDim>(tile, map, at, full);
}

/// Key tiles that a block's queries see, numbered: those of whole attention as in their document; of a part, those of
/// the earlier chunk of keys from 0 on, and behind them those of the later one.
template <bool kIsPart>
struct KeyWalk {
  TileRange range;
  Run late;
  Run early = {};
  int late_shift = 0, early_shift = 0;  ///< from a number to the tile of its run
  int border = 0;                       ///< the first number of the late run

  __device__ bool is_early(int number) const { return kIsPart && number < border; }
  __device__ const Run& run(int number) const { return is_early(number) ? early : late; }
  __device__ int tile(int number) const {
    return kIsPart ? number + (is_early(number) ? early_shift : late_shift) : number;
  }
  __device__ int row(int number) const { return run(number).begin + tile(number) * kTile; }
};

template <bool kIsPart>
__device__ KeyWalk<kIsPart> find_walk(const AttentionArguments& arguments, const Tile& at, int half) {
  KeyWalk<kIsPart> walk;
  bool has_late = false;
  TileRange early;
  for_each_key_run<kIsPart>(arguments, at, half, [&](const Run& run) {
    const TileRange tiles = run.band.key_tiles(at.tile);
    if (kIsPart && tiles.begin == tiles.end) return;
    if (!has_late) {
      walk.late = run;
      walk.range = tiles;
      has_late = true;
    } else {
      walk.early = run;
      early = tiles;
    }
  });
  if constexpr (kIsPart) {
    walk.border = early.end - early.begin;
    walk.early_shift = early.begin;
    walk.late_shift = walk.range.begin - walk.border;
    walk.range = {.begin = 0, .end = walk.border + walk.range.end - walk.range.begin};
  }
  return walk;
}

/// Columns of a block's heads in the rows of queries, and of keys and values.
struct HeadColumns {
  int query = 0, key = 0, value = 0;
};

/// Copies of tiles of rows.
struct Maps {
  const CUtensorMap& queries;
  const CUtensorMap& keys;
};

/// One thread: keeps the rings of key and value tiles full, from the diagonal to the past.
template <int kHeadDim, bool kIsPart>
__device__ void produce(Shared<kHeadDim>& shared, const Maps& maps, const Tile& at, HeadColumns columns,
                        const KeyWalk<kIsPart>& walk) {
  load_tile_rows<kHeadDim>(shared.queries, maps.queries, {.column = columns.query, .row = at.begin + at.first()},
                           &shared.queries_full);
  PipelineState<kStages> state;
  for (int tile = walk.range.end - 1; tile >= walk.range.begin; --tile) {
    const int row = walk.row(tile);
    barrier_wait(shared_address(&shared.keys_empty[state.stage]), state.empty_parity());
    load_tile_rows<kHeadDim>(shared.keys[state.stage], maps.keys, {.column = columns.key, .row = row},
                             &shared.keys_full[state.stage]);
    barrier_wait(shared_address(&shared.values_empty[state.stage]), state.empty_parity());
    load_tile_rows<kHeadDim>(shared.values[state.stage], maps.keys, {.column = columns.value, .row = row},
                             &shared.values_full[state.stage]);
    state.advance();
  }
}

/// Issues scores = queries keys^T for a warpgroup's 64 rows, `queries` being the address of the first.
template <int kHeadDim>
__device__ void issue_scores(float (&scores)[kScores], uint32_t queries, uint32_t keys) {
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    const uint32_t offset = k_major_offset(kTile, step);
    Wgmma<kTile>::template multiply<0>(scores, matrix_descriptor(queries + offset, 0, kRowGroupBytes),
                                       matrix_descriptor(keys + offset, 0, kRowGroupBytes), step > 0);
  }
}

/// Issues out += probabilities values.
template <int kHeadDim>
__device__ void issue_sum(float (&out)[kHeadDim / 2], const uint32_t (&probabilities)[kScores / 8][4],
                          uint32_t values) {
#pragma unroll
  for (int step = 0; step < kScores / 8; ++step) {
    Wgmma<kHeadDim>::template multiply<1>(
        out, probabilities[step],
        matrix_descriptor(values + mn_major_offset(step), mn_major_leading(kTile), kRowGroupBytes), true);
  }
}

/// Running maximum (raw scores) and this thread's part of the sum, of its two rows.
struct Softmax {
  float maximum[2] = {kMasked, kMasked};
  float sum[2] = {0, 0};
};

/// Scores become probabilities relative to the new maximum; returns what older sums must be multiplied with.
[[maybe_unused]] __device__ void softmax_step(Softmax& state, float (&scores)[kScores], float (&rescale)[2],
                                              float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float maximum = state.maximum[half];
#pragma unroll
    for (int i = 2 * half; i < kScores; i += 4) maximum = fmaxf(maximum, fmaxf(scores[i], scores[i + 1]));
    maximum = fmaxf(maximum, __shfl_xor_sync(kFullWarp, maximum, 1));
    maximum = fmaxf(maximum, __shfl_xor_sync(kFullWarp, maximum, 2));
    const float shift = maximum == kMasked ? 0.0f : maximum * scale_log2;
    rescale[half] = exp2_approximate(state.maximum[half] * scale_log2 - shift);
    state.maximum[half] = maximum;
    float sum = state.sum[half] * rescale[half];
#pragma unroll
    for (int i = 2 * half; i < kScores; i += 4) {
      scores[i] = exp2_approximate(scores[i] * scale_log2 - shift);
      scores[i + 1] = exp2_approximate(scores[i + 1] * scale_log2 - shift);
      sum += scores[i] + scores[i + 1];
    }
    state.sum[half] = sum;
  }
}

[[maybe_unused]] __device__ void mask_scores(float (&scores)[kScores], const CausalBandOf<kTile>& band, int first_query,
                                             int first_key) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int i = 0; i < kScores; ++i) {
    const int query = first_query + accumulator_row(0, lane, i);
    if (!band.sees(query, first_key + accumulator_column(lane, i))) scores[i] = kMasked;
  }
}

[[maybe_unused]] __device__ void pack_probabilities(uint32_t (&packed)[kScores / 8][4],
                                                    const float (&scores)[kScores]) {
#pragma unroll
  for (int i = 0; i < kScores / 2; ++i) packed[i / 4][i % 4] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
}

/// Of a warp's 16 rows, those from `rows` on left out.
template <int kCount>
[[maybe_unused]] __device__ float largest_magnitude(const float (&out)[kCount], const float (&factor)[2], int rows) {
  const int row = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int half = i / 2 % 2;
    if (row + 8 * half < rows) largest = larger_magnitude(largest, out[i] * factor[half]);
  }
  return largest;
}

/// A warpgroup's 64 queries against all key tiles of the walk; there is at least one.
template <int kHeadDim, bool kIsPart>
__device__ void consume(Shared<kHeadDim>& shared, const AttentionArguments& arguments, const Tile& at, int head,
                        const KeyWalk<kIsPart>& walk) {
  const TileRange range = walk.range;
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroupThreads - 1;
  const int warp_row = warpgroup * 64 + static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize * 16;
  const uint32_t queries = shared_address(shared.queries) + static_cast<uint32_t>(warpgroup * 64 * kPanelRowBytes);
  const float scale_log2 = arguments.scale * kLog2E;
  const auto finish_scores = [&](Softmax& state, float(&scores)[kScores], float(&rescale)[2], int tile) {
    const CausalBandOf<kTile>& band = walk.run(tile).band;
    const int key_tile = walk.tile(tile);
    if (band.needs_mask(at.tile, key_tile)) mask_scores(scores, band, at.first() + warp_row, key_tile * kTile);
    softmax_step(state, scores, rescale, scale_log2);
  };

  float out[kHeadDim / 2];
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0;
  float scores[kScores];
  uint32_t probabilities[kScores / 8][4];
  float rescale[2];
  Softmax state;
  PipelineState<kStages> keys;
  PipelineState<kStages> values;

  barrier_wait(shared_address(&shared.queries_full), 0);
  barrier_wait(shared_address(&shared.keys_full[0]), 0);
  wgmma_fence();
  issue_scores<kHeadDim>(scores, queries, shared_address(shared.keys[0]));
  wgmma_commit();
  wgmma_wait<0>();
  hold_registers(scores);
  release(&shared.keys_empty[0]);
  keys.advance();
  finish_scores(state, scores, rescale, range.end - 1);
  pack_probabilities(probabilities, scores);

  const auto wait_for_keys = [&](int tile) {
    if (tile >= range.begin) barrier_wait(shared_address(&shared.keys_full[keys.stage]), keys.full_parity());
  };
  wait_for_keys(range.end - 2);
  for (int tile = range.end - 2; tile >= range.begin; --tile) {
    hold_registers(scores);
    hold_registers(out);
    wgmma_fence();
    issue_scores<kHeadDim>(scores, queries, shared_address(shared.keys[keys.stage]));
    wgmma_commit();
    barrier_wait(shared_address(&shared.values_full[values.stage]), values.full_parity());
    wgmma_fence();  // the wait above ends the batch that the first fence opened
    issue_sum<kHeadDim>(out, probabilities, shared_address(shared.values[values.stage]));
    wgmma_commit();
    wgmma_wait<1>();
    hold_registers(scores);
    release(&shared.keys_empty[keys.stage]);
    keys.advance();
    finish_scores(state, scores, rescale, tile);
    // The exponentials belong here, under the other product; the loop of the next wait keeps the assembler from
    // hoisting the wait for that product above them.
    hold_registers(scores);
    wait_for_keys(tile - 1);
    wgmma_wait<0>();
    hold_registers(out);
    release(&shared.values_empty[values.stage]);
    pack_probabilities(probabilities, scores);
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) out[i] *= rescale[i / 2 % 2];
    values.advance();
  }
  barrier_wait(shared_address(&shared.values_full[values.stage]), values.full_parity());
  hold_registers(out);
  wgmma_fence();
  issue_sum<kHeadDim>(out, probabilities, shared_address(shared.values[values.stage]));
  wgmma_commit();
  wgmma_wait<0>();
  hold_registers(out);

  const int64_t stats = arguments.stats.start(head, at.document, at.begin) + at.first() + warp_row;
  RowFactors factors;
  finish_softmax<kIsPart>(factors, arguments, state, stats, warp_row, at.rows());
  const int64_t stride = arguments.out_stride();
  const int64_t first = (at.begin + at.first() + warp_row) * stride + head * kHeadDim;
  if constexpr (kIsPart) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; i += 2) {
      if (!factors.writes[i / 2 % 2]) continue;
      store_pair(arguments.merged + first + accumulator_row(0, lane, i) * stride + accumulator_column(lane, i), out[i],
                 out[i + 1], factors, i / 2 % 2);
    }
  } else {
    if (arguments.abs_max != nullptr) {
      raise_abs_max_of<bf16>(arguments.abs_max, largest_magnitude(out, factors.factor, at.rows() - warp_row));
    }
    store_accumulators<kTile, kHeadDim>(static_cast<bf16*>(arguments.out) + first, stride, at.rows() - warp_row, out,
                                        factors.factor,
                                        reinterpret_cast<unsigned char*>(shared.queries) + warp_row * kPanelRowBytes);
  }
}

/// Rows of no document, and of a first part those that see no key: 0 and, in a part, a log-sum-exp of -infinity. In a
/// later part they are left alone.
template <int kHeadDim, bool kIsPart>
__device__ void clear_out(const AttentionArguments& arguments, const Tile& at, int head) {
  if (kIsPart && !arguments.first) return;
  constexpr int kElements = kIsPart ? 4 : 8;
  const int64_t first = (at.begin + at.first()) * arguments.out_stride() + head * kHeadDim;
  for (int i = static_cast<int>(threadIdx.x); i < at.rows() * kHeadDim / kElements; i += kHopperThreads) {
    const int64_t element =
        first + i / (kHeadDim / kElements) * arguments.out_stride() + i % (kHeadDim / kElements) * kElements;
    void* const chunk = kIsPart ? static_cast<void*>(arguments.merged + element)
                                : static_cast<void*>(static_cast<bf16*>(arguments.out) + element);
    *static_cast<uint4*>(chunk) = make_uint4(0, 0, 0, 0);
  }
  const int64_t stats = arguments.stats.start(head, 0, at.begin) + at.first();
  for (int i = static_cast<int>(threadIdx.x); i < at.rows(); i += kHopperThreads) {
    arguments.log_sum_exp[stats + i] = kIsPart ? -INFINITY : 0.0f;
  }
}

template <int kHeadDim>
__device__ void init_barriers(Shared<kHeadDim>& shared) {
  barrier_init(shared_address(&shared.queries_full), 1);
  for (int stage = 0; stage < kStages; ++stage) {
    barrier_init(shared_address(&shared.keys_full[stage]), 1);
    barrier_init(shared_address(&shared.values_full[stage]), 1);
    barrier_init(shared_address(&shared.keys_empty[stage]), kConsumerArrivals);
    barrier_init(shared_address(&shared.values_empty[stage]), kConsumerArrivals);
  }
  barrier_init_fence();
}

template <int kHeadDim, bool kIsPart>
__global__ __launch_bounds__(kHopperThreads,
                             1) void attention_forward_sm90_kernel(const AttentionArguments arguments,
                                                                   const __grid_constant__ CUtensorMap queries,
                                                                   const __grid_constant__ CUtensorMap keys) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other architectures of a build get an empty kernel, which is never launched
  Shared<kHeadDim>& shared = align_shared<Shared<kHeadDim>>(launched_shared());
  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int half = static_cast<int>(blockIdx.z);
  const Tile at = find_query_tile<kIsPart, kTile>(arguments, static_cast<int>(blockIdx.x), half);
  if (at.rows() == 0) return;
  if (at.document < 0) return clear_out<kHeadDim, kIsPart>(arguments, at, head);
  const KeyWalk<kIsPart> walk = find_walk<kIsPart>(arguments, at, half);
  if (kIsPart && walk.range.end == 0) return clear_out<kHeadDim, kIsPart>(arguments, at, head);
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();
  const int role = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) {
      const int key_head = (kIsPart ? 0 : arguments.num_heads) + head / arguments.group();
      produce<kHeadDim>(shared, {.queries = queries, .keys = keys}, at,
                        {.query = head * kHeadDim,
                         .key = key_head * kHeadDim,
                         .value = (key_head + arguments.num_kv_heads) * kHeadDim},
                        walk);
    }
  } else {
    take_registers<240>();
    consume<kHeadDim>(shared, arguments, at, head, walk);
  }
#endif
}

template <int kHeadDim, bool kIsPart>
void launch(const AttentionArguments& arguments, const DeviceContext& context) {
  MatrixMapRequest request{.data = arguments.qkv,
                           .rows = arguments.num_tokens,
                           .columns = int64_t{arguments.num_heads + 2 * arguments.num_kv_heads} * kHeadDim,
                           .box_rows = kTile};
  const CUtensorMap queries = make_matrix_map(request);
  if (kIsPart) {
    request.data = arguments.keys_values;
    request.columns = int64_t{2} * arguments.num_kv_heads * kHeadDim;
  }
  const CUtensorMap keys = kIsPart ? make_matrix_map(request) : queries;
  launch_kernel<CUtensorMap, CUtensorMap>({.kernel = attention_forward_sm90_kernel<kHeadDim, kIsPart>,
                                           .blocks_x = tile_blocks<kTile>(arguments),
                                           .blocks_y = static_cast<unsigned>(arguments.num_on()),
                                           .blocks_z = kIsPart ? kChunksOfRank : 1u,
                                           .threads = kHopperThreads,
                                           .shared_bytes = aligned_shared_bytes<Shared<kHeadDim>>(),
                                           .name = "attention_forward"},
                                          arguments, context, queries, keys);
}

template <int kHeadDim>
void launch_form(const AttentionArguments& arguments, const DeviceContext& context) {
  if (arguments.is_part()) return launch<kHeadDim, true>(arguments, context);
  launch<kHeadDim, false>(arguments, context);
}

}  // namespace

bool attention_has_hopper_forward(int head_dim, DType dtype, const DeviceContext& context) {
  return context.compute_capability == 90 && dtype == DType::kBF16 && (head_dim == 64 || head_dim == 128);
}

void launch_attention_forward_hopper(const AttentionArguments& arguments, const DeviceContext& context) {
  if (arguments.head_dim == 64) {
    launch_form<64>(arguments, context);
  } else {
    launch_form<128>(arguments, context);
  }
}

}  // namespace litespark::cuda
