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

template <int kHeadDim, int kStages, bool kHasAlibi, bool kIsPart>
__global__ __launch_bounds__(kAttentionThreads, kHeadDim > 128 ? 1 : 2) void attention_backward_queries_kernel(
    const AttentionArguments arguments) {
  bf16* const queries = reinterpret_cast<bf16*>(launched_shared());
  bf16* const douts = queries + tile_elements<kHeadDim>();
  bf16* const keys = douts + tile_elements<kHeadDim>();
  bf16* const values = keys + kStages * tile_elements<kHeadDim>();

  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int half = static_cast<int>(blockIdx.z);
  const DocumentTile at = find_query_tile<kIsPart>(arguments, static_cast<int>(blockIdx.x), half);
  if (at.rows() == 0) return;
  const int first_row = at.begin + at.first();
  const int64_t dquery_stride = kIsPart ? arguments.out_stride() : arguments.qkv_stride();
  auto* const dqueries = query_gradients<bf16, kIsPart>(arguments) + first_row * dquery_stride + head * kHeadDim;
  if (at.document < 0) {
    if (!kIsPart || arguments.first) clear_rows<kHeadDim>(dqueries, dquery_stride, at.rows());
    return;
  }

  const int64_t stride = arguments.key_stride<kIsPart>();
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;
  load_tile<kHeadDim>(queries, arguments.queries_at<bf16>(first_row) + head * kHeadDim, arguments.qkv_stride(),
                      at.rows());
  load_tile<kHeadDim>(douts, arguments.douts_at<bf16>(first_row) + head * kHeadDim, arguments.out_stride(), at.rows());
  const RowStatistics statistics[2] = {load_statistics(arguments, at, head, warp_row + lane / 4),
                                       load_statistics(arguments, at, head, warp_row + lane / 4 + 8)};

  float dq[kHeadDim / 8][4] = {};
  const float scale_log2 = arguments.scale * kLog2E;
  const bf16* const my_queries = queries + warp_row * padded_pitch(kHeadDim);
  const bf16* const my_douts = douts + warp_row * padded_pitch(kHeadDim);
  for_each_key_run<kIsPart>(arguments, at, half, [&](const MetRows<kAttentionTile>& run) {
    const CausalBand& band = run.band;
    const TileRange range = band.key_tiles(at.tile);
    if (kIsPart && range.begin == range.end) return;
    const bf16* const key_rows = arguments.keys_at<bf16, kIsPart>(run.begin) + head / arguments.group() * kHeadDim;
    const bf16* const value_rows = key_rows + arguments.num_kv_heads * kHeadDim;
    const auto load_stage = [&](int tile, int offset) {
      const int first_key = tile * kAttentionTile;
      const int rows = min(kAttentionTile, band.num_keys - first_key);
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
              const int distance = band.offset + query - key;
              scores[block][i] -= arguments.slope(head) / arguments.scale * static_cast<float>(distance);
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
  });
  const int rows_left = at.rows() - warp_row;
  if constexpr (kIsPart) {
    finish_copies();
    store_rows<kHeadDim>(dqueries + warp_row * dquery_stride, dquery_stride, rows_left, dq,
                         {.factor = {arguments.scale, arguments.scale}, .keep = {1, 1}, .adds = !arguments.first});
  } else {
    store_rows<kHeadDim>(dqueries + warp_row * dquery_stride, dquery_stride, rows_left, dq,
                         {arguments.scale, arguments.scale}, queries + warp_row * padded_pitch(kHeadDim));
  }
}

}  // namespace

void launch_attention_backward_queries(const AttentionArguments& arguments, const DeviceContext& context) {
  visit_head_dim(arguments.head_dim, [&](auto tag) {
    constexpr int kHeadDim = decltype(tag)::value;
    constexpr int kTileBytes = tile_elements<kHeadDim>() * 2;
    launch_with_stages(6 * kTileBytes, context, [&](auto stages) {
      constexpr int kStages = decltype(stages)::value;
      visit_form(arguments, [&](auto has_alibi, auto is_part) {
        launch_tiles({.kernel = attention_backward_queries_kernel<kHeadDim, kStages, has_alibi, is_part>,
                      .num_heads = arguments.num_on(),
                      .shared_bytes = (2 + 2 * kStages) * kTileBytes,
                      .name = "attention_backward"},
                     arguments, context);
      });
    });
  });
}

}  // namespace litespark::cuda
