// SPDX-License-Identifier: Apache-2.0
// Gradients of the keys and values on tensor cores: a block owns 64 keys of one kv head and walks the query tiles of
// every query head in its group, so grouped-query attention needs no workspace and no atomics. Scores are computed
// transposed (keys as rows): P^T and dS^T then are A operands where they stand.
#include "ops/cuda/device/attention_gradient.cuh"

namespace litespark::cuda {
namespace {

/// Which gradients one launch produces. Heads of 256 leave registers for one at a time.
enum class Outputs { kBoth, kKeysOnly, kValuesOnly };

/// One query tile of one head.
template <int kHeadDim>
struct QueryStage {
  bf16 queries[tile_elements<kHeadDim>()];
  bf16 douts[tile_elements<kHeadDim>()];
  RowStatistics statistics[kAttentionTile];
};

/// Shared memory of the kernel, in the order of the bytes.
template <int kHeadDim, int kStages>
struct SharedTiles {
  bf16 keys[tile_elements<kHeadDim>()];
  bf16 values[tile_elements<kHeadDim>()];
  QueryStage<kHeadDim> stages[kStages];
};

/// One step of the walk: which query tile of which head, and where it stands in the document.
struct QueryStep {
  int head = 0;
  int tile = 0;
};

/// Starts the copies of one query tile; thread i < 64 fetches the statistics of row i.
template <int kHeadDim>
__device__ void load_queries(QueryStage<kHeadDim>& tiles, const AttentionArguments& arguments,
                             const DocumentRows& document, const DocumentTile& at, QueryStep step) {
  const auto [head, query_tile] = step;
  const int first = query_tile * kAttentionTile;
  const int rows = min(kAttentionTile, at.length - first);
  const int64_t stride = arguments.qkv_stride();
  load_tile<kHeadDim>(tiles.queries, document.qkv + first * stride + head * kHeadDim, stride, rows);
  load_tile<kHeadDim>(tiles.douts, document.dout + first * arguments.out_stride() + head * kHeadDim,
                      arguments.out_stride(), rows);
  copy_async_commit();
  const int row = static_cast<int>(threadIdx.x);
  if (row >= kAttentionTile) return;
  RowStatistics statistics;
  if (row < rows) {
    const int64_t stats = arguments.stats.start(head, at.document, at.begin) + first + row;
    const int64_t delta = int64_t{head} * arguments.num_tokens + at.begin + first + row;
    statistics = {.log_sum_exp_log2 = arguments.log_sum_exp[stats] * kLog2E, .delta = arguments.delta[delta]};
  }
  tiles.statistics[row] = statistics;
}

/// What decides the weights of a tile besides its numbers.
struct TileMask {
  CausalBand band;
  int first_query = 0;  ///< of the query tile
  int first_key = 0;    ///< of the warp's 16 keys
  float scale_log2 = 0;
  bool masked = false;  ///< some pair is not visible
  float slope = 0;      ///< ALiBi's over the scale
};

/// Adds what the query tile in stage `stage` contributes to a warp's 16 keys.
template <int kHeadDim, Outputs kOutputs, int kStages, bool kHasAlibi>
__device__ void add_query_tile(float (&dkeys)[kHeadDim / 8][4], float (&dvalues)[kHeadDim / 8][4],
                               const SharedTiles<kHeadDim, kStages>& shared, int stage, const TileMask& mask) {
  const QueryStage<kHeadDim>& tiles = shared.stages[stage];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp_offset = static_cast<int>(threadIdx.x) / kWarpSize * 16 * padded_pitch(kHeadDim);
#pragma unroll 1
  for (int column = 0; column < kAttentionTile; column += kGradientColumns) {
    const int row_offset = column * padded_pitch(kHeadDim);
    float scores[kGradientBlocks][4];
    float gradients[kGradientBlocks][4] = {};
    multiply_rows<kHeadDim>(scores, shared.keys + warp_offset, tiles.queries + row_offset);
    if constexpr (kOutputs != Outputs::kValuesOnly) {
      multiply_rows<kHeadDim>(gradients, shared.values + warp_offset, tiles.douts + row_offset);
    }
#pragma unroll
    for (int block = 0; block < kGradientBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const TileCoordinate element = mma_c(lane, i);
        const int query = column + 8 * block + element.column;
        const bool visible = !mask.masked || mask.band.sees(mask.first_query + query, mask.first_key + element.row);
        if constexpr (kHasAlibi) {
          const int distance = mask.first_query + query - mask.first_key - element.row;
          scores[block][i] -= mask.slope * static_cast<float>(distance);
        }
        probability_and_gradient(scores[block][i], gradients[block][i], mask.scale_log2, tiles.statistics[query],
                                 visible);
      }
    }
    if constexpr (kOutputs != Outputs::kKeysOnly) accumulate_rows<kHeadDim>(dvalues, scores, tiles.douts + row_offset);
    if constexpr (kOutputs != Outputs::kValuesOnly) {
      accumulate_rows<kHeadDim>(dkeys, gradients, tiles.queries + row_offset);
    }
  }
}

template <int kHeadDim, Outputs kOutputs, int kStages, bool kHasAlibi>
__global__ __launch_bounds__(kAttentionThreads, kHeadDim > 128 ? 1 : 2) void attention_backward_keys_kernel(
    const AttentionArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tiles = *reinterpret_cast<SharedTiles<kHeadDim, kStages>*>(shared);

  const int kv_head = arguments.busy_kv_head(static_cast<int>(blockIdx.y));
  const int key_column = (arguments.num_heads + kv_head) * kHeadDim;
  const int value_column = key_column + arguments.num_kv_heads * kHeadDim;
  DocumentTile at = find_tile(document_table(arguments), static_cast<int>(blockIdx.x));
  // The first keys of a document meet the most queries: here the long work is at the other end than for queries.
  if (at.document >= 0) at.tile = tiles_of(at.length) - 1 - at.tile;
  if (at.rows() == 0) return;
  const int64_t stride = arguments.qkv_stride();
  const DocumentRows document(arguments, at.begin);
  bf16* const drows = document.dqkv + at.first() * stride;
  if (at.document < 0) {
    if constexpr (kOutputs != Outputs::kValuesOnly) clear_rows<kHeadDim>(drows + key_column, stride, at.rows());
    if constexpr (kOutputs != Outputs::kKeysOnly) clear_rows<kHeadDim>(drows + value_column, stride, at.rows());
    return;
  }
  const bf16* const rows = document.qkv + at.first() * stride;
  load_tile<kHeadDim>(tiles.keys, rows + key_column, stride, at.rows());
  load_tile<kHeadDim>(tiles.values, rows + value_column, stride, at.rows());

  const CausalBand band{.length = at.length, .window = arguments.window};
  const TileRange range = band.query_tiles(at.tile);
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;
  float dkeys[kHeadDim / 8][4] = {};
  float dvalues[kHeadDim / 8][4] = {};
  const int tiles_per_head = range.end - range.begin;
  const int first_head = kv_head * arguments.group();
  const int steps = arguments.gates.num_on(first_head, arguments.group()) * tiles_per_head;
  const auto head_of = [&](int step) { return arguments.gates.nth_on(first_head, step / tiles_per_head); };
  const auto load_step = [&](int step, int stage) {
    load_queries(tiles.stages[stage], arguments, document, at,
                 {.head = head_of(step), .tile = range.begin + step % tiles_per_head});
  };
  load_step(0, 0);
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages;
    if (kStages > 1 && step + 1 < steps) {
      load_step(step + 1, kStages - 1 - stage);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    const int tile = range.begin + step % tiles_per_head;
    add_query_tile<kHeadDim, kOutputs, kStages, kHasAlibi>(
        dkeys, dvalues, tiles, stage,
        {.band = band,
         .first_query = tile * kAttentionTile,
         .first_key = at.first() + warp_row,
         .scale_log2 = arguments.scale * kLog2E,
         .masked = band.needs_mask(tile, at.tile),
         .slope = kHasAlibi ? arguments.slope(head_of(step)) / arguments.scale : 0.0f});
    __syncthreads();
    if (kStages == 1 && step + 1 < steps) load_step(step + 1, 0);
  }
  const int rows_left = at.rows() - warp_row;
  bf16* const staging = tiles.keys + warp_row * padded_pitch(kHeadDim);
  bf16* const warp_drows = drows + warp_row * stride;
  if constexpr (kOutputs != Outputs::kValuesOnly) {
    store_rows<kHeadDim>(warp_drows + key_column, stride, rows_left, dkeys, {arguments.scale, arguments.scale},
                         staging);
  }
  if constexpr (kOutputs != Outputs::kKeysOnly) {
    store_rows<kHeadDim>(warp_drows + value_column, stride, rows_left, dvalues, {1.0f, 1.0f}, staging);
  }
}

template <int kHeadDim, Outputs kOutputs>
void launch(const AttentionArguments& arguments, const DeviceContext& context) {
  launch_with_stages(static_cast<int>(sizeof(SharedTiles<kHeadDim, 2>)), context, [&](auto stages) {
    constexpr int kStages = decltype(stages)::value;
    launch_tiles({.kernel = arguments.has_alibi ? attention_backward_keys_kernel<kHeadDim, kOutputs, kStages, true>
                                                : attention_backward_keys_kernel<kHeadDim, kOutputs, kStages, false>,
                  .num_heads = arguments.num_busy_kv_heads(),
                  .shared_bytes = static_cast<int>(sizeof(SharedTiles<kHeadDim, kStages>)),
                  .name = "attention_backward"},
                 arguments, context);
  });
}

}  // namespace

void launch_attention_backward_keys(const AttentionArguments& arguments, const DeviceContext& context) {
  visit_head_dim(arguments.head_dim, [&](auto tag) {
    constexpr int kHeadDim = decltype(tag)::value;
    if constexpr (kHeadDim > 128) {
      launch<kHeadDim, Outputs::kKeysOnly>(arguments, context);
      launch<kHeadDim, Outputs::kValuesOnly>(arguments, context);
    } else {
      launch<kHeadDim, Outputs::kBoth>(arguments, context);
    }
  });
}

}  // namespace litespark::cuda
