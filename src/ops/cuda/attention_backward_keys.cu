// SPDX-License-Identifier: Apache-2.0
// Gradients of the keys and values on tensor cores: a block owns 64 keys of one kv head and walks the query tiles of
// every query head in its group, so grouped-query attention needs no workspace and no atomics. Scores are computed
// transposed (keys as rows): P^T and dS^T then are A operands where they stand.
#include "ops/cuda/device/attention_gradient.cuh"

namespace litespark::cuda {
namespace {

/// Which gradients one launch produces. Heads of 256 leave registers for one at a time.
enum class Outputs { kBoth, kKeysOnly, kValuesOnly };

/// Shared memory of the kernel, in the order of the bytes.
template <int kHeadDim>
struct SharedTiles {
  bf16 keys[tile_elements<kHeadDim>()];
  bf16 values[tile_elements<kHeadDim>()];
  bf16 queries[tile_elements<kHeadDim>()];
  bf16 douts[tile_elements<kHeadDim>()];
  RowStatistics statistics[kAttentionTile];
};

/// Starts the copies of one query tile of one head; thread i < 64 fetches the statistics of row i.
template <int kHeadDim>
__device__ void load_queries(SharedTiles<kHeadDim>& tiles, const AttentionArguments& arguments,
                             const DocumentRows& document, const DocumentTile& at, int head, int query_tile) {
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

/// Adds what the loaded query tile contributes to a warp's 16 keys.
template <int kHeadDim, Outputs kOutputs>
__device__ void add_query_tile(float (&dkeys)[kHeadDim / 8][4], float (&dvalues)[kHeadDim / 8][4],
                               const SharedTiles<kHeadDim>& tiles, const CausalBand& band, int first_query,
                               int first_key, float scale_log2, bool masked) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp_offset = static_cast<int>(threadIdx.x) / kWarpSize * 16 * padded_pitch(kHeadDim);
#pragma unroll 1
  for (int column = 0; column < kAttentionTile; column += kGradientColumns) {
    const int row_offset = column * padded_pitch(kHeadDim);
    float scores[kGradientBlocks][4];
    float gradients[kGradientBlocks][4] = {};
    multiply_rows<kHeadDim>(scores, tiles.keys + warp_offset, tiles.queries + row_offset);
    if constexpr (kOutputs != Outputs::kValuesOnly) {
      multiply_rows<kHeadDim>(gradients, tiles.values + warp_offset, tiles.douts + row_offset);
    }
#pragma unroll
    for (int block = 0; block < kGradientBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const TileCoordinate element = mma_c(lane, i);
        const int query = column + 8 * block + element.column;
        probability_and_gradient(scores[block][i], gradients[block][i], scale_log2, tiles.statistics[query],
                                 !masked || band.sees(first_query + query, first_key + element.row));
      }
    }
    if constexpr (kOutputs != Outputs::kKeysOnly) accumulate_rows<kHeadDim>(dvalues, scores, tiles.douts + row_offset);
    if constexpr (kOutputs != Outputs::kValuesOnly) {
      accumulate_rows<kHeadDim>(dkeys, gradients, tiles.queries + row_offset);
    }
  }
}

template <int kHeadDim, Outputs kOutputs>
__global__ __launch_bounds__(kAttentionThreads, kHeadDim > 128 ? 1 : 2) void attention_backward_keys_kernel(
    const AttentionArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tiles = *reinterpret_cast<SharedTiles<kHeadDim>*>(shared);

  const int kv_head = static_cast<int>(blockIdx.y);
  const int key_column = (arguments.num_heads + kv_head) * kHeadDim;
  const int value_column = key_column + arguments.num_kv_heads * kHeadDim;
  const DocumentTile at = find_tile(document_table(arguments), static_cast<int>(blockIdx.x));
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
  const float scale_log2 = arguments.scale * kLog2E;
  for (int head = kv_head * arguments.group(); head < (kv_head + 1) * arguments.group(); ++head) {
    for (int tile = range.begin; tile < range.end; ++tile) {
      load_queries(tiles, arguments, document, at, head, tile);
      copy_async_wait<0>();
      __syncthreads();
      add_query_tile<kHeadDim, kOutputs>(dkeys, dvalues, tiles, band, tile * kAttentionTile, at.first() + warp_row,
                                         scale_log2, band.needs_mask(tile, at.tile));
      __syncthreads();
    }
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
  launch_tiles({.kernel = attention_backward_keys_kernel<kHeadDim, kOutputs>,
                .num_heads = arguments.num_kv_heads,
                .shared_bytes = static_cast<int>(sizeof(SharedTiles<kHeadDim>)),
                .name = "attention_backward"},
               arguments, context);
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
