// SPDX-License-Identifier: Apache-2.0
// Attention forward on tensor cores with mma.sync (Dao 2023, "FlashAttention-2"): a block owns 64 queries of one head
// and walks the key tiles of its document with an online softmax; each warp owns 16 rows, so no row crosses a warp.
#include "core/error.h"
#include "ops/cuda/attention_portable.h"
#include "ops/cuda/check.h"
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

template <int kHeadDim, bool kHasAlibi>
__global__ __launch_bounds__(kAttentionThreads,
                             kHeadDim > 128 ? 1 : 3) void attention_forward_kernel(const AttentionArguments arguments) {
  extern __shared__ __align__(16) unsigned char shared[];
  bf16* const queries = reinterpret_cast<bf16*>(shared);
  bf16* const keys = queries + tile_elements<kHeadDim>();
  bf16* const values = keys + tile_elements<kHeadDim>();

  const int head = arguments.query_head(static_cast<int>(blockIdx.y));
  const int kv_head = arguments.num_heads + head / arguments.group();
  const DocumentTile at = find_tile(document_table(arguments), static_cast<int>(blockIdx.x));
  if (at.rows() == 0) return;
  const int64_t out_stride = arguments.out_stride();
  bf16* const out_rows = static_cast<bf16*>(arguments.out) + (at.begin + at.first()) * out_stride + head * kHeadDim;
  if (at.document < 0) {
    clear_rows<kHeadDim>(out_rows, out_stride, at.rows());
    const int row = static_cast<int>(threadIdx.x);
    const int64_t start = arguments.stats.start(head, 0, at.begin) + at.first();
    if (row < at.rows()) arguments.log_sum_exp[start + row] = 0;
    return;
  }

  const int64_t stride = arguments.qkv_stride();
  const bf16* const document = static_cast<const bf16*>(arguments.qkv) + at.begin * stride;
  const bf16* const key_rows = document + kv_head * kHeadDim;
  const bf16* const value_rows = key_rows + arguments.num_kv_heads * kHeadDim;
  const CausalBand band{.length = at.length, .window = arguments.window};
  const TileRange range = band.key_tiles(at.tile);
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;

  load_tile<kHeadDim>(queries, document + at.first() * stride + head * kHeadDim, stride, at.rows());
  const auto load_keys_or_values = [&](bf16* tile, const bf16* rows, int index) {
    const int first = index * kAttentionTile;
    load_tile<kHeadDim>(tile, rows + first * stride, stride, min(kAttentionTile, at.length - first));
    copy_async_commit();
  };
  // From the diagonal to the past: the first tile that a row meets is never empty for it, except past the end.
  load_keys_or_values(keys, key_rows, range.end - 1);

  float out[kHeadDim / 8][4] = {};
  SoftmaxState state;
  const float scale_log2 = arguments.scale * kLog2E;
  for (int tile = range.end - 1; tile >= range.begin; --tile) {
    copy_async_wait<0>();
    __syncthreads();
    load_keys_or_values(values, value_rows, tile);
    float scores[kBlocks][4];
    multiply_rows<kHeadDim>(scores, queries + warp_row * padded_pitch(kHeadDim), keys);
    if constexpr (kHasAlibi) {
      add_distance_bias(scores, arguments.slope(head) / arguments.scale, at.first() + warp_row, tile * kAttentionTile);
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

  float factor[2];
  const int64_t stats = arguments.stats.start(head, at.document, at.begin) + at.first() + warp_row;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = state.sum[half];
    sum += __shfl_xor_sync(kFullWarp, sum, 1);
    sum += __shfl_xor_sync(kFullWarp, sum, 2);
    factor[half] = sum > 0 ? 1.0f / sum : 0.0f;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int row = lane / 4 + 8 * half;
    if (lane % 4 == 0 && warp_row + row < at.rows()) {
      arguments.log_sum_exp[stats + row] = state.maximum[half] * arguments.scale + logf(sum);
    }
  }
  if (arguments.abs_max != nullptr) {
    raise_abs_max_of<bf16>(arguments.abs_max, largest_magnitude<kHeadDim>(out, factor, at.rows() - warp_row));
  }
  store_rows<kHeadDim>(out_rows + warp_row * out_stride, out_stride, at.rows() - warp_row, out, factor,
                       queries + warp_row * padded_pitch(kHeadDim));
}

}  // namespace

void launch_attention_forward_tensor(const AttentionArguments& arguments, const DeviceContext& context) {
  visit_head_dim(arguments.head_dim, [&](auto tag) {
    constexpr int kHeadDim = decltype(tag)::value;
    launch_tiles({.kernel = arguments.has_alibi ? attention_forward_kernel<kHeadDim, true>
                                                : attention_forward_kernel<kHeadDim, false>,
                  .num_heads = arguments.num_on(),
                  .shared_bytes = 3 * tile_elements<kHeadDim>() * 2,
                  .name = "attention_forward"},
                 arguments, context);
  });
}

}  // namespace litespark::cuda
