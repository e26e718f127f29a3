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
__device__ void load_queries(QueryStage<kHeadDim>& tiles, const AttentionArguments& arguments, int document,
                             const MetRows<kAttentionTile>& run, QueryStep step) {
  const auto [head, query_tile] = step;
  const int first = run.begin + query_tile * kAttentionTile;
  const int rows = min(kAttentionTile, run.band.length - query_tile * kAttentionTile);
  load_tile<kHeadDim>(tiles.queries, arguments.queries_at<bf16>(first) + head * kHeadDim, arguments.qkv_stride(), rows);
  load_tile<kHeadDim>(tiles.douts, arguments.douts_at<bf16>(first) + head * kHeadDim, arguments.out_stride(), rows);
  copy_async_commit();
  const int row = static_cast<int>(threadIdx.x);
  if (row >= kAttentionTile) return;
  RowStatistics statistics;
  if (row < rows) {
    const int64_t stats = arguments.stats.start(head, document, run.begin) + query_tile * kAttentionTile + row;
    const int64_t delta = int64_t{head} * arguments.num_tokens + first + row;
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
          const int distance = mask.band.offset + mask.first_query + query - mask.first_key - element.row;
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

/// Writes a warp's 16 keys; `tile` is shared memory that nobody reads any more.
template <int kHeadDim, Outputs kOutputs, bool kIsPart>
__device__ void store_key_rows(const AttentionArguments& arguments, const DocumentTile& at, int kv_head,
                               const float (&dkeys)[kHeadDim / 8][4], const float (&dvalues)[kHeadDim / 8][4],
                               bf16* tile) {
  const int64_t stride = arguments.key_stride<kIsPart>();
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;
  const int rows_left = at.rows() - warp_row;
  auto* const key_rows =
      key_gradients<bf16, kIsPart>(arguments) + (at.begin + at.first() + warp_row) * stride + kv_head * kHeadDim;
  auto* const value_rows = key_rows + arguments.num_kv_heads * kHeadDim;
  if constexpr (kIsPart) {
    if constexpr (kOutputs != Outputs::kValuesOnly) {
      store_rows<kHeadDim>(key_rows, stride, rows_left, dkeys, {.factor = {arguments.scale, arguments.scale}});
    }
    if constexpr (kOutputs != Outputs::kKeysOnly) store_rows<kHeadDim>(value_rows, stride, rows_left, dvalues, {});
  } else {
    bf16* const staging = tile + warp_row * padded_pitch(kHeadDim);
    if constexpr (kOutputs != Outputs::kValuesOnly) {
      store_rows<kHeadDim>(key_rows, stride, rows_left, dkeys, {arguments.scale, arguments.scale}, staging);
    }
    if constexpr (kOutputs != Outputs::kKeysOnly) {
      store_rows<kHeadDim>(value_rows, stride, rows_left, dvalues, {1.0f, 1.0f}, staging);
    }
  }
}

template <int kHeadDim, Outputs kOutputs, bool kIsPart>
__device__ void clear_key_rows(const AttentionArguments& arguments, const DocumentTile& at, int kv_head) {
  const int64_t stride = arguments.key_stride<kIsPart>();
  auto* const rows = key_gradients<bf16, kIsPart>(arguments) + (at.begin + at.first()) * stride + kv_head * kHeadDim;
  if constexpr (kOutputs != Outputs::kValuesOnly) clear_rows<kHeadDim>(rows, stride, at.rows());
  if constexpr (kOutputs != Outputs::kKeysOnly) {
    clear_rows<kHeadDim>(rows + arguments.num_kv_heads * kHeadDim, stride, at.rows());
  }
}

template <int kHeadDim, Outputs kOutputs, int kStages, bool kHasAlibi, bool kIsPart>
__global__ __launch_bounds__(kAttentionThreads, kHeadDim > 128 ? 1 : 2) void attention_backward_keys_kernel(
    const AttentionArguments arguments) {
  auto& tiles = *reinterpret_cast<SharedTiles<kHeadDim, kStages>*>(launched_shared());

  const int kv_head = arguments.busy_kv_head(static_cast<int>(blockIdx.y));
  const int half = static_cast<int>(blockIdx.z);
  DocumentTile at = find_key_tile<kIsPart>(arguments, static_cast<int>(blockIdx.x), half);
  // The first keys of a document meet the most queries: here the long work is at the other end than for queries.
  if (at.document >= 0) at.tile = tiles_of(at.length) - 1 - at.tile;
  if (at.rows() == 0) return;
  if (at.document < 0) return clear_key_rows<kHeadDim, kOutputs, kIsPart>(arguments, at, kv_head);
  const int64_t stride = arguments.key_stride<kIsPart>();
  const bf16* const rows = arguments.keys_at<bf16, kIsPart>(at.begin + at.first()) + kv_head * kHeadDim;
  load_tile<kHeadDim>(tiles.keys, rows, stride, at.rows());
  load_tile<kHeadDim>(tiles.values, rows + arguments.num_kv_heads * kHeadDim, stride, at.rows());

  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;
  float dkeys[kHeadDim / 8][4] = {};
  float dvalues[kHeadDim / 8][4] = {};
  for_each_query_run<kIsPart>(arguments, at, half, [&](const MetRows<kAttentionTile>& run) {
    const CausalBand& band = run.band;
    const TileRange range = band.query_tiles(at.tile);
    if (kIsPart && range.begin == range.end) return;
    const int tiles_per_head = range.end - range.begin;
    const int first_head = kv_head * arguments.group();
    const int steps = arguments.gates.num_on(first_head, arguments.group()) * tiles_per_head;
    const auto head_of = [&](int step) { return arguments.gates.nth_on(first_head, step / tiles_per_head); };
    const auto load_step = [&](int step, int stage) {
      load_queries(tiles.stages[stage], arguments, at.document, run,
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
  });
  if constexpr (kIsPart) finish_copies();
  store_key_rows<kHeadDim, kOutputs, kIsPart>(arguments, at, kv_head, dkeys, dvalues, tiles.keys);
}

template <int kHeadDim, Outputs kOutputs>
void launch(const AttentionArguments& arguments, const DeviceContext& context) {
  launch_with_stages(static_cast<int>(sizeof(SharedTiles<kHeadDim, 2>)), context, [&](auto stages) {
    constexpr int kStages = decltype(stages)::value;
    visit_form(arguments, [&](auto has_alibi, auto is_part) {
      launch_tiles({.kernel = attention_backward_keys_kernel<kHeadDim, kOutputs, kStages, has_alibi, is_part>,
                    .num_heads = arguments.num_busy_kv_heads(),
                    .shared_bytes = static_cast<int>(sizeof(SharedTiles<kHeadDim, kStages>)),
                    .name = "attention_backward"},
                   arguments, context);
    });
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
