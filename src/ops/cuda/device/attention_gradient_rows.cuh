// SPDX-License-Identifier: Apache-2.0
// What the Hopper attention backward does row by row, one block a query tile and head: before, the statistics in the
// order that its blocks copy them, and which queries see which key; afterwards, the summed dQ in bf16.
#pragma once

#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/attention_backward_sm90.cuh"
#include "ops/cuda/device/document_tile.cuh"

namespace litespark::cuda {

inline constexpr int kGradientRowThreads = 256;

/// Rows of documents: those past them are 0.
__device__ inline int document_rows(const DocumentTable& table) {
  return table.uniform_length > 0 ? table.num_tokens : table.offsets[*table.num_documents];
}

/// The last row that sees key `row`, and the first key that row `row` sees; rows of no document see nothing.
struct RowSight {
  int last_query = 0;
  int first_key = 0;
};
__device__ inline RowSight row_sight(const DocumentTable& table, int row, int window) {
  const DocumentTile document = find_document(table, row);
  if (document.document < 0) return {.last_query = document_rows(table) - 1};
  const int end = document.begin + document.length;
  // Written without row + window, which overflows for a window near the integer limit.
  const bool cut = window > 0 && window < end - row;
  const bool starts_later = window > 0 && row - document.begin >= window;
  return {.last_query = cut ? row + window - 1 : end - 1,
          .first_key = starts_later ? row - window + 1 : document.begin};
}

/// sum over d of dout * out, the same in the kHeadDim / 8 neighbouring threads of a row.
template <int kHeadDim>
__device__ float row_delta(const AttentionArguments& arguments, int64_t token, int head) {
  float sum = 0;
  if (token < arguments.num_tokens) {
    const int column = static_cast<int>(threadIdx.x) % (kHeadDim / 8) * 8;
    const int64_t start = token * arguments.out_stride() + head * kHeadDim + column;
    float out[8];
    float dout[8];
    load_floats(static_cast<const bf16*>(arguments.out) + start, out);
    load_floats(static_cast<const bf16*>(arguments.dout) + start, dout);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += out[i] * dout[i];
  }
  return warp_sum<kHeadDim / 8>(sum);
}

/// Statistics of one tile and the head of block `slot` among those that are on; the tile's sights; clears turns and
/// ticket, and in free order the sum of dQ.
template <int kHeadDim>
__device__ void prepare_gradient_rows(const AttentionArguments& arguments, const DocumentTable& table,
                                      const GradientBuffers& buffers, int tile, int slot, bool clears_sum) {
  constexpr int kQueries = gradient_query_tile(kHeadDim);
  constexpr int kThreadsPerRow = kHeadDim / 8;
  const int thread = static_cast<int>(threadIdx.x);
  const int head = arguments.query_head(slot);
  const int64_t item = int64_t{head} * tiles_of<kQueries>(arguments.num_tokens) + tile;
  float* const statistics = buffers.statistics + item * (2 * kQueries);
  for (int row = thread / kThreadsPerRow; row < kQueries; row += kGradientRowThreads / kThreadsPerRow) {
    const int token = tile * kQueries + row;
    const float delta = row_delta<kHeadDim>(arguments, token, head);
    if (thread % kThreadsPerRow != 0) continue;
    float log_sum_exp = 0;
    if (token < arguments.num_tokens) {
      const DocumentTile document = arguments.stats.by_document ? find_document(table, token) : DocumentTile{};
      log_sum_exp =
          arguments
              .log_sum_exp[arguments.stats.start(head, document.document, document.begin) + token - document.begin];
    }
    statistics[row] = log_sum_exp * kLog2E;
    statistics[kQueries + row] = delta;
  }
  if (slot == 0 && thread < kQueries && tile * kQueries + thread < arguments.num_tokens) {
    const RowSight sight = row_sight(table, tile * kQueries + thread, arguments.window);
    buffers.last_query[tile * kQueries + thread] = sight.last_query;
    if (thread == 0) buffers.first_key_tile[tile] = sight.first_key / kGradientKeyTile;
  }
  if (thread == 0) {
    buffers.turns[item] = 0;
    if (slot == 0 && tile == 0) *buffers.ticket = 0;
  }
  if (!clears_sum) return;
  float4* const sum = reinterpret_cast<float4*>(buffers.dqueries + item * kGradientTileFloats);
  for (int i = thread; i < kGradientTileFloats / 4; i += kGradientRowThreads) sum[i] = make_float4(0, 0, 0, 0);
}

/// Shared memory of finish_gradient_rows: a query tile in rows.
template <int kHeadDim>
struct GradientRows {
  static constexpr int kPitch = kHeadDim + 8;
  alignas(16) bf16 elements[gradient_query_tile(kHeadDim) * kPitch];
};

/// scale times the summed dQ of one tile and the head of block `slot`, to its columns of dqkv; zeros in rows of no
/// document.
template <int kHeadDim>
__device__ void finish_gradient_rows(const AttentionArguments& arguments, const DocumentTable& table,
                                     const GradientBuffers& buffers, int tile, int slot,
                                     GradientRows<kHeadDim>& shared) {
  constexpr int kQueries = gradient_query_tile(kHeadDim);
  constexpr int kPitch = GradientRows<kHeadDim>::kPitch;
  const int thread = static_cast<int>(threadIdx.x);
  const int head = arguments.query_head(slot);
  const int64_t item = int64_t{head} * tiles_of<kQueries>(arguments.num_tokens) + tile;
  const float4* const sum = reinterpret_cast<const float4*>(buffers.dqueries + item * kGradientTileFloats);
  const int rows = document_rows(table) - tile * kQueries;
  if (rows > 0) {
#pragma unroll
    for (int i = 0; i < kGradientTileFloats / 4 / kGradientRowThreads; ++i) {
      const int quad = i * kGradientRowThreads + thread;
      constexpr int kHalf = kGradientTileFloats / 8;
      const GradientFragment at = gradient_fragment(quad % kHalf);
      const int row = at.row + (kHeadDim == 64 ? quad / kHalf * 64 : 0);
      const int column = at.column + (kHeadDim == 64 ? 0 : quad / kHalf * 64);
      const float4 value = sum[quad];
      uint32_t* const word = reinterpret_cast<uint32_t*>(shared.elements + row * kPitch + column);
      word[0] = pack_bf16(value.x * arguments.scale, value.y * arguments.scale);
      word[8 * kPitch / 2] = pack_bf16(value.z * arguments.scale, value.w * arguments.scale);
    }
  }
  __syncthreads();
  constexpr int kChunks = kHeadDim / 8;
  for (int chunk = thread; chunk < kQueries * kChunks; chunk += kGradientRowThreads) {
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    const int64_t token = int64_t{tile} * kQueries + row;
    if (token >= arguments.num_tokens) return;
    uint4 value = make_uint4(0, 0, 0, 0);
    if (row < rows) value = *reinterpret_cast<const uint4*>(shared.elements + row * kPitch + column);
    bf16* const dqkv = static_cast<bf16*>(arguments.dqkv);
    *reinterpret_cast<uint4*>(dqkv + token * arguments.qkv_stride() + head * kHeadDim + column) = value;
  }
}

}  // namespace litespark::cuda
