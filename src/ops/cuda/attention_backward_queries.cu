// SPDX-License-Identifier: Apache-2.0
// Gradient of the queries on tensor cores: a block owns 64 queries of one head and walks the key tiles, like the
// forward. dQ has one owner, so nothing is added by atomics and the result has the same bits every time.
#include "ops/cuda/device/attention_gradient.cuh"

namespace litespark::cuda {
namespace {

__device__ RowStatistics load_statistics(const AttentionArguments& arguments, const DocumentTile& at, int head,
                                         int row_of_tile) {
  if (row_of_tile >= at.rows()) return {};
  const int row = at.first() + row_of_tile;
  const int64_t stats = arguments.stats.start(head, at.document, at.begin) + row;
  return {.log_sum_exp_log2 = arguments.log_sum_exp[stats] * kLog2E,
          .delta = arguments.delta[int64_t{head} * arguments.num_tokens + at.begin + row]};
}

template <int kHeadDim, int kStages, bool kHasAlibi>
__global__ __launch_bounds__(kAttentionThreads, kHeadDim > 128 ? 1 : 2) void attention_backward_queries_kernel(
    const AttentionArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared[];
  bf16* const queries = reinterpret_cast<bf16*>(shared);
  bf16* const douts = queries + tile_elements<kHeadDim>();
  bf16* const keys = douts + tile_elements<kHeadDim>();
  bf16* const values = keys + kStages * tile_elements<kHeadDim>();

  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int kv_head = arguments.num_heads + head / arguments.group();
  const DocumentTile at = find_tile(document_table(arguments), static_cast<int>(blockIdx.x));
  if (at.rows() == 0) return;
  const int64_t stride = arguments.qkv_stride();
  const DocumentRows document(arguments, at.begin);
  bf16* const dqueries = document.dqkv + at.first() * stride + head * kHeadDim;
  if (at.document < 0) return clear_rows<kHeadDim>(dqueries, stride, at.rows());

  const bf16* const key_rows = document.qkv + kv_head * kHeadDim;
  const bf16* const value_rows = key_rows + arguments.num_kv_heads * kHeadDim;
  const CausalBand band{.length = at.length, .window = arguments.window};
  const TileRange range = band.key_tiles(at.tile);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;

  load_tile<kHeadDim>(queries, document.qkv + at.first() * stride + head * kHeadDim, stride, at.rows());
  load_tile<kHeadDim>(douts, document.dout + at.first() * arguments.out_stride() + head * kHeadDim,
                      arguments.out_stride(), at.rows());
  const RowStatistics statistics[2] = {load_statistics(arguments, at, head, warp_row + lane / 4),
                                       load_statistics(arguments, at, head, warp_row + lane / 4 + 8)};

  float dq[kHeadDim / 8][4] = {};
  const float scale_log2 = arguments.scale * kLog2E;
  const bf16* const my_queries = queries + warp_row * padded_pitch(kHeadDim);
  const bf16* const my_douts = douts + warp_row * padded_pitch(kHeadDim);
  const auto load_stage = [&](int tile, int offset) {
    const int first_key = tile * kAttentionTile;
    const int rows = min(kAttentionTile, at.length - first_key);
    load_tile<kHeadDim>(keys + offset, key_rows + first_key * stride, stride, rows);
    load_tile<kHeadDim>(values + offset, value_rows + first_key * stride, stride, rows);
    copy_async_commit();
  };
  load_stage(range.end - 1, 0);
  int offset = 0;  // of the stage in use
  for (int tile = range.end - 1; tile >= range.begin; --tile) {
    if (kStages > 1 && tile > range.begin) {
      load_stage(tile - 1, tile_elements<kHeadDim>() - offset);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();
    const int first_key = tile * kAttentionTile;
    const bool masked = band.needs_mask(at.tile, tile);
#pragma unroll 1
    for (int column = 0; column < kAttentionTile; column += kGradientColumns) {
      float scores[kGradientBlocks][4];
      float gradients[kGradientBlocks][4];
      multiply_rows<kHeadDim>(scores, my_queries, keys + offset + column * padded_pitch(kHeadDim));
      multiply_rows<kHeadDim>(gradients, my_douts, values + offset + column * padded_pitch(kHeadDim));
#pragma unroll
      for (int block = 0; block < kGradientBlocks; ++block) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const TileCoordinate element = mma_c(lane, i);
          const int query = at.first() + warp_row + element.row;
          const int key = first_key + column + 8 * block + element.column;
          if constexpr (kHasAlibi) {
            scores[block][i] -= arguments.slope(head) / arguments.scale * static_cast<float>(query - key);
          }
          probability_and_gradient(scores[block][i], gradients[block][i], scale_log2, statistics[i / 2],
                                   !masked || band.sees(query, key));
        }
      }
      accumulate_rows<kHeadDim>(dq, gradients, keys + offset + column * padded_pitch(kHeadDim));
    }
    __syncthreads();
    if constexpr (kStages > 1) {
      offset = tile_elements<kHeadDim>() - offset;
    } else if (tile > range.begin) {
      load_stage(tile - 1, 0);
    }
  }
  store_rows<kHeadDim>(dqueries + warp_row * stride, stride, at.rows() - warp_row, dq,
                       {arguments.scale, arguments.scale}, queries + warp_row * padded_pitch(kHeadDim));
}

}  // namespace

void launch_attention_backward_queries(const AttentionArguments& arguments, const DeviceContext& context) {
  visit_head_dim(arguments.head_dim, [&](auto tag) {
    constexpr int kHeadDim = decltype(tag)::value;
    constexpr int kTileBytes = tile_elements<kHeadDim>() * 2;
    launch_with_stages(6 * kTileBytes, context, [&](auto stages) {
      constexpr int kStages = decltype(stages)::value;
      launch_tiles({.kernel = arguments.has_alibi ? attention_backward_queries_kernel<kHeadDim, kStages, true>
                                                  : attention_backward_queries_kernel<kHeadDim, kStages, false>,
                    .num_heads = arguments.num_on(),
                    .shared_bytes = (2 + 2 * kStages) * kTileBytes,
                    .name = "attention_backward"},
                   arguments, context);
    });
  });
}

}  // namespace litespark::cuda
