// SPDX-License-Identifier: Apache-2.0
// Attention forward on tensor cores with mma.sync (Dao 2023, "FlashAttention-2"): a block owns 64 queries of one head
// and walks the key tiles of its document with an online softmax; each warp owns 16 rows, so no row crosses a warp.
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/attention_launch.cuh"
#include "ops/cuda/device/attention_tile.cuh"
#include "ops/cuda/device/document_tile.cuh"

namespace litespark::cuda {
namespace {

constexpr int kBlocks = kAttentionTile / 8;  // 8-column blocks of a score tile
constexpr float kMasked = -INFINITY;

/// Running maximum (raw scores) and sum of the two rows that a lane's quad shares.
struct SoftmaxState {
  float maximum[2] = {kMasked, kMasked};
  float sum[2] = {0, 0};
};

__device__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 1));
  return fmaxf(value, __shfl_xor_sync(kFullWarp, value, 2));
}

/// Turns scores into probabilities relative to the running maximum, and rescales what was summed before.
template <int kHeadDim>
__device__ void softmax_step(SoftmaxState& state, float (&scores)[kBlocks][4], float (&out)[kHeadDim / 8][4],
                             float scale_log2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float maximum = state.maximum[half];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      maximum = fmaxf(maximum, fmaxf(scores[block][2 * half], scores[block][2 * half + 1]));
    }
    maximum = quad_max(maximum);
    // A row that has seen no key yet stays at -inf; subtracting 0 instead keeps its probabilities 0, not NaN.
    const float shift = maximum == kMasked ? 0.0f : maximum * scale_log2;
    const float rescale = exp2_approximate(state.maximum[half] * scale_log2 - shift);
    state.maximum[half] = maximum;
    float sum = state.sum[half] * rescale;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[block][i] = exp2_approximate(scores[block][i] * scale_log2 - shift);
        sum += scores[block][i];
      }
    }
    state.sum[half] = sum;
#pragma unroll
    for (int block = 0; block < kHeadDim / 8; ++block) {
      out[block][2 * half] *= rescale;
      out[block][2 * half + 1] *= rescale;
    }
  }
}

__device__ void mask_scores(float (&scores)[kBlocks][4], const CausalBand& band, int first_query, int first_key) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const TileCoordinate at = mma_c(lane, i);
      if (!band.sees(first_query + at.row, first_key + 8 * block + at.column)) scores[block][i] = kMasked;
    }
  }
}

/// Raw scores lose `slope` (ALiBi's over the scale) for each position between query and key.
__device__ void add_distance_bias(float (&scores)[kBlocks][4], float slope, int first_query, int first_key) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const TileCoordinate at = mma_c(lane, i);
      const int distance = first_query + at.row - first_key - 8 * block - at.column;
      scores[block][i] -= slope * static_cast<float>(distance);
    }
  }
}

/// Rows of no document: 0, or in a later part what stands there.
template <int kHeadDim, bool kIsPart>
__device__ void clear_outputs(const AttentionArguments& arguments, const DocumentTile& at, int head) {
  const int64_t start = arguments.stats.start(head, 0, at.begin) + at.first();
  const int64_t first = (at.begin + at.first()) * arguments.out_stride() + head * kHeadDim;
  const int row = static_cast<int>(threadIdx.x);
  if constexpr (kIsPart) {
    if (!arguments.first) return;
    clear_rows<kHeadDim>(arguments.merged + first, arguments.out_stride(), at.rows());
    if (row < at.rows()) arguments.log_sum_exp[start + row] = -INFINITY;
  } else {
    clear_rows<kHeadDim>(static_cast<bf16*>(arguments.out) + first, arguments.out_stride(), at.rows());
    if (row < at.rows()) arguments.log_sum_exp[start + row] = 0;
  }
}

/// Of a warp's 16 rows, those from `rows` on left out.
template <int kHeadDim>
__device__ float largest_magnitude(const float (&out)[kHeadDim / 8][4], const float (&factor)[2], int rows) {
  float largest = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (static_cast<int>(threadIdx.x) % kWarpSize / 4 + 8 * half >= rows) continue;
#pragma unroll
    for (int block = 0; block < kHeadDim / 8; ++block) {
      largest = larger_magnitude(largest, out[block][2 * half] * factor[half]);
      largest = larger_magnitude(largest, out[block][2 * half + 1] * factor[half]);
    }
  }
  return largest;
}

/// Writes a warp's 16 rows, of which `state` and `out` hold what was seen, and their statistics.
template <int kHeadDim, bool kIsPart>
__device__ void finish_rows(const AttentionArguments& arguments, const DocumentTile& at, int head,
                            const SoftmaxState& state, const float (&out)[kHeadDim / 8][4], bf16* staging) {
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;
  const int64_t stats = arguments.stats.start(head, at.document, at.begin) + at.first() + warp_row;
  RowFactors factors;
  finish_softmax<kIsPart>(factors, arguments, state, stats, warp_row, at.rows());
  const int64_t stride = arguments.out_stride();
  const int64_t first = (at.begin + at.first() + warp_row) * stride + head * kHeadDim;
  if constexpr (kIsPart) {
    store_rows<kHeadDim>(arguments.merged + first, stride, at.rows() - warp_row, out, factors);
  } else {
    if (arguments.abs_max != nullptr) {
      raise_abs_max_of<bf16>(arguments.abs_max, largest_magnitude<kHeadDim>(out, factors.factor, at.rows() - warp_row));
    }
    store_rows<kHeadDim>(static_cast<bf16*>(arguments.out) + first, stride, at.rows() - warp_row, out, factors.factor,
                         staging);
  }
}

/// Blocks of a multiprocessor. Those of a part know more rows: of 96, they would not fit into a third of its registers.
constexpr int blocks_at_a_time(int head_dim, bool is_part) {
  if (head_dim > 128) return 1;
  return is_part && head_dim == 96 ? 2 : 3;
}

template <int kHeadDim, bool kHasAlibi, bool kIsPart>
__global__ __launch_bounds__(kAttentionThreads, blocks_at_a_time(kHeadDim, kIsPart)) void attention_forward_kernel(
    const AttentionArguments arguments) {
  bf16* const queries = reinterpret_cast<bf16*>(launched_shared());
  bf16* const keys = queries + tile_elements<kHeadDim>();
  bf16* const values = keys + tile_elements<kHeadDim>();

  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int half = static_cast<int>(blockIdx.z);
  const DocumentTile at = find_query_tile<kIsPart>(arguments, static_cast<int>(blockIdx.x), half);
  if (at.rows() == 0) return;
  if (at.document < 0) return clear_outputs<kHeadDim, kIsPart>(arguments, at, head);

  const int64_t stride = arguments.key_stride<kIsPart>();
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;
  load_tile<kHeadDim>(queries, arguments.queries_at<bf16>(at.begin + at.first()) + head * kHeadDim,
                      arguments.qkv_stride(), at.rows());
  float out[kHeadDim / 8][4] = {};
  SoftmaxState state;
  const float scale_log2 = arguments.scale * kLog2E;
  for_each_key_run<kIsPart>(arguments, at, half, [&](const MetRows<kAttentionTile>& run) {
    const CausalBand& band = run.band;
    const TileRange range = band.key_tiles(at.tile);
    if (kIsPart && range.begin == range.end) return;
    const bf16* const key_rows = arguments.keys_at<bf16, kIsPart>(run.begin) + head / arguments.group() * kHeadDim;
    const bf16* const value_rows = key_rows + arguments.num_kv_heads * kHeadDim;
    const auto load_keys_or_values = [&](bf16* tile, const bf16* rows, int index) {
      const int first = index * kAttentionTile;
      load_tile<kHeadDim>(tile, rows + first * stride, stride, min(kAttentionTile, band.num_keys - first));
      copy_async_commit();
    };
    // From the diagonal to the past: of whole attention the first tile that a row meets is never empty for it, except
    // past the end.
    load_keys_or_values(keys, key_rows, range.end - 1);
    for (int tile = range.end - 1; tile >= range.begin; --tile) {
      copy_async_wait<0>();
      __syncthreads();
      load_keys_or_values(values, value_rows, tile);
      float scores[kBlocks][4];
      multiply_rows<kHeadDim>(scores, queries + warp_row * padded_pitch(kHeadDim), keys);
      if constexpr (kHasAlibi) {
        add_distance_bias(scores, arguments.slope(head) / arguments.scale, band.offset + at.first() + warp_row,
                          tile * kAttentionTile);
      }
      if (band.needs_mask(at.tile, tile)) {
        mask_scores(scores, band, at.first() + warp_row, tile * kAttentionTile);
      }
      softmax_step<kHeadDim>(state, scores, out, scale_log2);
      copy_async_wait<0>();
      __syncthreads();
      if (tile > range.begin) load_keys_or_values(keys, key_rows, tile - 1);
      accumulate_rows<kHeadDim>(out, scores, values);
    }
  });
  if constexpr (kIsPart) finish_copies();
  finish_rows<kHeadDim, kIsPart>(arguments, at, head, state, out, queries + warp_row * padded_pitch(kHeadDim));
}

}  // namespace

void launch_attention_forward_tensor(const AttentionArguments& arguments, const DeviceContext& context) {
  visit_head_dim(arguments.head_dim, [&](auto tag) {
    constexpr int kHeadDim = decltype(tag)::value;
    visit_form(arguments, [&](auto has_alibi, auto is_part) {
      launch_tiles({.kernel = attention_forward_kernel<kHeadDim, has_alibi, is_part>,
                    .num_heads = arguments.num_on(),
                    .shared_bytes = 3 * tile_elements<kHeadDim>() * 2,
                    .name = "attention_forward"},
                   arguments, context);
    });
  });
}

}  // namespace litespark::cuda
