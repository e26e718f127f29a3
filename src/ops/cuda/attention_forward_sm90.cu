// SPDX-License-Identifier: Apache-2.0
// Attention forward for Hopper (Shah et al. 2024, "FlashAttention-3"): one warp copies tiles with the tensor memory
// accelerator, two warpgroups own 64 queries each, and the scores of the next key tile are computed by the tensor cores
// while the softmax of the current one runs. Probabilities never leave their registers.
#include "core/error.h"
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
using Band = CausalBandOf<kTile>;

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

/// Columns of a block's heads in the packed rows.
struct HeadColumns {
  int query = 0, key = 0, value = 0;
};

/// One thread: keeps the rings of key and value tiles full, from the diagonal to the past.
template <int kHeadDim>
__device__ void produce(Shared<kHeadDim>& shared, const CUtensorMap& map, const Tile& at, HeadColumns columns,
                        TileRange range) {
  load_tile_rows<kHeadDim>(shared.queries, map, {.column = columns.query, .row = at.begin + at.first()},
                           &shared.queries_full);
  PipelineState<kStages> state;
  for (int tile = range.end - 1; tile >= range.begin; --tile) {
    const int row = at.begin + tile * kTile;
    barrier_wait(shared_address(&shared.keys_empty[state.stage]), state.empty_parity());
    load_tile_rows<kHeadDim>(shared.keys[state.stage], map, {.column = columns.key, .row = row},
                             &shared.keys_full[state.stage]);
    barrier_wait(shared_address(&shared.values_empty[state.stage]), state.empty_parity());
    load_tile_rows<kHeadDim>(shared.values[state.stage], map, {.column = columns.value, .row = row},
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

[[maybe_unused]] __device__ void mask_scores(float (&scores)[kScores], const Band& band, int first_query,
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

/// A warpgroup's 64 queries against all key tiles of the range.
template <int kHeadDim>
__device__ void consume(Shared<kHeadDim>& shared, const AttentionArguments& arguments, const Tile& at, int head,
                        TileRange range) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroupThreads - 1;
  const int warp_row = warpgroup * 64 + static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize * 16;
  const uint32_t queries = shared_address(shared.queries) + static_cast<uint32_t>(warpgroup * 64 * kPanelRowBytes);
  const Band band{.length = at.length, .window = arguments.window};
  const float scale_log2 = arguments.scale * kLog2E;
  const auto finish_scores = [&](Softmax& state, float(&scores)[kScores], float(&rescale)[2], int tile) {
    if (band.needs_mask(at.tile, tile)) mask_scores(scores, band, at.first() + warp_row, tile * kTile);
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

  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float factor[2];
  const int64_t stats = arguments.stats.start(head, at.document, at.begin) + at.first() + warp_row;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = state.sum[half];
    sum += __shfl_xor_sync(kFullWarp, sum, 1);
    sum += __shfl_xor_sync(kFullWarp, sum, 2);
    factor[half] = sum > 0 ? 1.0f / sum : 0.0f;
    const int row = lane / 4 + 8 * half;
    if (lane % 4 == 0 && warp_row + row < at.rows()) {
      arguments.log_sum_exp[stats + row] = state.maximum[half] * arguments.scale + logf(sum);
    }
  }
  if (arguments.abs_max != nullptr) {
    raise_abs_max_of<bf16>(arguments.abs_max, largest_magnitude(out, factor, at.rows() - warp_row));
  }
  const int64_t stride = arguments.out_stride();
  bf16* const rows = static_cast<bf16*>(arguments.out) + (at.begin + at.first() + warp_row) * stride + head * kHeadDim;
  store_accumulators<kTile, kHeadDim>(rows, stride, at.rows() - warp_row, out, factor,
                                      reinterpret_cast<unsigned char*>(shared.queries) + warp_row * kPanelRowBytes);
}

/// Rows of no document.
template <int kHeadDim>
__device__ void clear_out(const AttentionArguments& arguments, const Tile& at, int head) {
  bf16* const rows = static_cast<bf16*>(arguments.out) + (at.begin + at.first()) * arguments.out_stride();
  for (int i = static_cast<int>(threadIdx.x); i < at.rows() * kHeadDim / 8; i += kHopperThreads) {
    bf16* const chunk = rows + i / (kHeadDim / 8) * arguments.out_stride() + head * kHeadDim + i % (kHeadDim / 8) * 8;
    *reinterpret_cast<uint4*>(chunk) = make_uint4(0, 0, 0, 0);
  }
  const int64_t stats = arguments.stats.start(head, 0, at.begin) + at.first();
  for (int i = static_cast<int>(threadIdx.x); i < at.rows(); i += kHopperThreads) arguments.log_sum_exp[stats + i] = 0;
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

template <int kHeadDim>
__global__ __launch_bounds__(kHopperThreads,
                             1) void attention_forward_sm90_kernel(const AttentionArguments arguments,
                                                                   const __grid_constant__ CUtensorMap map) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other architectures of a build get an empty kernel, which is never launched
  extern __shared__ __align__(16) unsigned char raw[];
  Shared<kHeadDim>& shared = align_shared<Shared<kHeadDim>>(raw);
  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const Tile at = find_tile<kTile>(document_table(arguments), static_cast<int>(blockIdx.x));
  if (at.rows() == 0) return;
  if (at.document < 0) return clear_out<kHeadDim>(arguments, at, head);
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();
  const TileRange range = Band{.length = at.length, .window = arguments.window}.key_tiles(at.tile);
  const int role = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) {
      const int key_head = arguments.num_heads + head / arguments.group();
      produce<kHeadDim>(shared, map, at,
                        {.query = head * kHeadDim,
                         .key = key_head * kHeadDim,
                         .value = (key_head + arguments.num_kv_heads) * kHeadDim},
                        range);
    }
  } else {
    take_registers<240>();
    consume<kHeadDim>(shared, arguments, at, head, range);
  }
#endif
}

template <int kHeadDim>
void launch(const AttentionArguments& arguments, const DeviceContext& context) {
  const CUtensorMap map =
      make_matrix_map({.data = arguments.qkv,
                       .rows = arguments.num_tokens,
                       .columns = int64_t{arguments.num_heads + 2 * arguments.num_kv_heads} * kHeadDim,
                       .box_rows = kTile});
  const auto kernel = attention_forward_sm90_kernel<kHeadDim>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             aligned_shared_bytes<Shared<kHeadDim>>()),
        "attention_forward");
  const int64_t tiles = arguments.uniform_length > 0
                            ? int64_t{arguments.max_documents} * tiles_of<kTile>(arguments.uniform_length)
                            : tile_capacity<kTile>(arguments.num_tokens, arguments.max_documents);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(arguments.num_on()));
  kernel<<<grid, kHopperThreads, aligned_shared_bytes<Shared<kHeadDim>>(), context.stream>>>(arguments, map);
  check_launch("attention_forward");
}

}  // namespace

bool attention_has_hopper_forward(int head_dim, DType dtype, const DeviceContext& context) {
  return context.compute_capability == 90 && dtype == DType::kBF16 && (head_dim == 64 || head_dim == 128);
}

void launch_attention_forward_hopper(const AttentionArguments& arguments, const DeviceContext& context) {
  if (arguments.head_dim == 64) {
    launch<64>(arguments, context);
  } else {
    launch<128>(arguments, context);
  }
}

}  // namespace litespark::cuda
