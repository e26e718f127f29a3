// SPDX-License-Identifier: Apache-2.0
// What a block of the Hopper attention backward works on: a tile of keys of whole attention or of a part that context
// ranks share, the query tiles that see it, and what each thread's keys see of a query tile.
#pragma once

#include "core/op/attention.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/hopper_tile.cuh"
#include "ops/cuda/heuristics/attention_gradient.h"

namespace litespark::cuda {

/// Parts of the scratch, as gradient_scratch lays them out.
struct GradientBuffers {
  float* dqueries = nullptr;
  float* statistics = nullptr;
  int32_t* last_query = nullptr;
  int32_t* first_key_tile = nullptr;
  int32_t* turns = nullptr;
  int32_t* ticket = nullptr;
};

struct GradientArguments {
  void* gradients = nullptr;  ///< dqkv in bf16; of a part, dkeys_values in f32
  GradientBuffers buffers;
  GradientOrder order;
  int num_tokens = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  float scale = 0;
  op::HeadGates gates;
  RotaryAngles angles;       ///< of whole attention, by which dK is rotated back
  float* abs_max = nullptr;  ///< of dqkv, or null
  GradientSight sight = {};  ///< of a part

  __device__ int group() const { return num_heads / num_kv_heads; }
};

/// What a block works on.
struct GradientBlock {
  int key_tile = 0;
  TileRange query_tiles;

  __device__ int first_key() const { return key_tile * kGradientKeyTile; }
};

template <bool kIsPart>
__device__ GradientSight sight_of(const GradientArguments& arguments) {
  if constexpr (kIsPart) return arguments.sight;
  return {.num_keys = arguments.num_tokens};
}

template <int kHeadDim, bool kIsPart>
__device__ GradientBlock gradient_block(const GradientArguments& arguments, int slot) {
  const GradientOrder::Work work = arguments.order.work(slot);
  const int num_keys = sight_of<kIsPart>(arguments).num_keys;
  const int end = (work.key_tile + 1) * kGradientKeyTile;
  const int last_key = (end < num_keys ? end : num_keys) - 1;
  const int last_query = arguments.buffers.last_query[last_key];
  constexpr int kQueries = gradient_query_tile(kHeadDim);
  return {.key_tile = work.key_tile,
          .query_tiles = kIsPart ? gradient_query_tiles(work.key_tile, arguments.sight, last_query, kQueries)
                                 : gradient_query_tiles(work.key_tile, last_query, kQueries)};
}

/// The queries that a thread's two keys see, counted from its first column of a query tile: column 8 j + e is visible
/// to row r when first[r] <= 8 j + e <= last[r].
struct VisibleColumns {
  int first[2];
  int last[2];

  __device__ bool sees(int half, int column) const { return column >= first[half] && column <= last[half]; }
};

/// Where a consuming thread stands.
template <bool kIsPart>
struct GradientThread {
  int warpgroup = 0;
  int warp_row = 0;  ///< of its warp's first key in the tile
  int first_key = 0;
  int last_query[2] = {-1, -1};

  __device__ GradientThread(const GradientArguments& arguments, const GradientBlock& block)
      : warpgroup(__shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0) - 1),
        warp_row(warpgroup * 64 + static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize * 16),
        first_key(block.first_key() + warp_row + static_cast<int>(threadIdx.x) % kWarpSize / 4) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = first_key + 8 * half;
      if (key < sight_of<kIsPart>(arguments).num_keys) last_query[half] = arguments.buffers.last_query[key];
    }
  }

  /// Of the query tile that starts at row `first_query`.
  __device__ VisibleColumns visible(const GradientArguments& arguments, int first_query) const {
    const int column = first_query + 2 * (static_cast<int>(threadIdx.x) % 4);
    const GradientSight sight = sight_of<kIsPart>(arguments);
    return {.first = {sight.first_query_of(first_key) - column, sight.first_query_of(first_key + 8) - column},
            .last = {last_query[0] - column, last_query[1] - column}};
  }
};

/// The row from which on no query comes before a key of the block's tile; behind all queries where the tile has keys
/// that none may see, so that every step masks them.
template <bool kIsPart>
__device__ int first_unmasked_query(const GradientArguments& arguments, const GradientBlock& block) {
  const GradientSight sight = sight_of<kIsPart>(arguments);
  const int last_key = block.first_key() + kGradientKeyTile - 1;
  if (kIsPart && last_key >= sight.num_keys) return arguments.num_tokens;
  return sight.first_query_of(last_key);
}

/// Elements between rows of dK; dV stands num_kv_heads heads behind it.
template <int kHeadDim, bool kIsPart>
__device__ int64_t key_gradient_stride(const GradientArguments& arguments) {
  return int64_t{(kIsPart ? 0 : arguments.num_heads) + 2 * arguments.num_kv_heads} * kHeadDim;
}
template <bool kIsPart>
__device__ auto key_gradients_of(const GradientArguments& arguments) {
  if constexpr (kIsPart) {
    return static_cast<float*>(arguments.gradients);
  } else {
    return static_cast<bf16*>(arguments.gradients);
  }
}

}  // namespace litespark::cuda
