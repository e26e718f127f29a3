// SPDX-License-Identifier: Apache-2.0
// What the Hopper attention backward does row by row, one block a query tile and head: before, the statistics in the
// order that its blocks copy them, and which queries see which key; afterwards, the summed dQ in bf16, or, of a part
// that context ranks share, in addition to what other parts left.
#pragma once

#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/attention_backward_sm90.cuh"
#include "ops/cuda/device/attention_parts.cuh"
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

/// The last row of a part's queries that sees key `row`; less than GradientSight::first_query_of(row) where none does.
/// It only grows with the row.
__device__ inline int last_query_of_part(const AttentionArguments& arguments, const DocumentTable& table, int row) {
  const int key = rows_of_rank(arguments, arguments.part.key_rank).row_of_batch(row);
  const int last = row_sight(table, key, arguments.window).last_query;
  return rows_of_rank(arguments, arguments.part.query_rank).before(last + 1) - 1;
}

/// The first key tile of a part whose block visits the query tile of `rows` rows from `first_row` on: that of the first
/// key which the tile's first row that may see any does see. All tiles behind it that start early enough visit it too.
__device__ inline int first_key_tile_of_part(const AttentionArguments& arguments, const DocumentTable& table,
                                             int first_row, int rows) {
  const GradientSight sight = gradient_sight(arguments.part, arguments.num_tokens);
  const int end = min(first_row + rows, arguments.num_tokens);
  const int row = first_row > sight.first_query ? first_row : sight.first_query;
  if (row >= end) return kNoKeyTile;
  const int query = rows_of_rank(arguments, arguments.part.query_rank).row_of_batch(row);
  if (query >= document_rows(table)) return kNoKeyTile;
  const int first_key = row_sight(table, query, arguments.window).first_key;
  const int key = rows_of_rank(arguments, arguments.part.key_rank).before(first_key);
  return key < sight.num_keys ? key / kGradientKeyTile : kNoKeyTile;
}

/// Neighbouring threads of a row, a power of two: each reads one piece of 8 columns, or of heads of 96 three.
template <int kHeadDim>
inline constexpr int kThreadsOfRow = kHeadDim / 8 & -(kHeadDim / 8);

/// sum over d of dout * out, the same in all threads of a row.
template <int kHeadDim>
__device__ float row_delta(const AttentionArguments& arguments, int64_t token, int head) {
  constexpr int kThreads = kThreadsOfRow<kHeadDim>;
  float sum = 0;
  if (token < arguments.num_tokens) {
    const int column = static_cast<int>(threadIdx.x) % kThreads * 8;
    const int64_t start = token * arguments.out_stride() + head * kHeadDim + column;
#pragma unroll
    for (int piece = 0; piece < kHeadDim; piece += kThreads * 8) {
      float out[8];
      float dout[8];
      load_floats(static_cast<const bf16*>(arguments.out) + start + piece, out);
      load_floats(static_cast<const bf16*>(arguments.dout) + start + piece, dout);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += out[i] * dout[i];
    }
  }
  return warp_sum<kThreads>(sum);
}

/// Statistics of one tile and the head of block `slot` among those that are on; the tile's sights; clears turns and
/// ticket, and in free order the sum of dQ.
template <int kHeadDim, bool kIsPart>
__device__ void prepare_gradient_rows(const AttentionArguments& arguments, const DocumentTable& table,
                                      const GradientBuffers& buffers, int tile, int slot, bool clears_sum) {
  constexpr int kQueries = gradient_query_tile(kHeadDim);
  constexpr int kThreadsPerRow = kThreadsOfRow<kHeadDim>;
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
    if constexpr (kIsPart) {
      buffers.last_query[tile * kQueries + thread] = last_query_of_part(arguments, table, tile * kQueries + thread);
      if (thread == 0) {
        buffers.first_key_tile[tile] = first_key_tile_of_part(arguments, table, tile * kQueries, kQueries);
      }
    } else {
      const RowSight sight = row_sight(table, tile * kQueries + thread, arguments.window);
      buffers.last_query[tile * kQueries + thread] = sight.last_query;
      if (thread == 0) buffers.first_key_tile[tile] = sight.first_key / kGradientKeyTile;
    }
  }
  if (thread == 0) {
    buffers.turns[item] = 0;
    if (slot == 0 && tile == 0) *buffers.ticket = 0;
  }
  if (!clears_sum) return;
  float4* const sum = reinterpret_cast<float4*>(buffers.dqueries + item * gradient_tile_floats(kHeadDim));
  for (int i = thread; i < gradient_tile_floats(kHeadDim) / 4; i += kGradientRowThreads)
    sum[i] = make_float4(0, 0, 0, 0);
}

/// Where four neighbouring numbers of a query tile's sum belong: two here, two eight rows below.
template <int kHeadDim>
__device__ GradientFragment sum_fragment(int quad) {
  using Shape = GradientShape<kHeadDim>;
  constexpr int kHalf = Shape::kTileFloats / 8;
  const GradientFragment at = gradient_fragment(quad % kHalf);
  return {.row = at.row + (Shape::kHalvesQueries ? quad / kHalf * 64 : 0),
          .column = at.column + (Shape::kHalvesQueries ? 0 : quad / kHalf * Shape::kDqueryColumns)};
}

/// Of finish_gradient_rows, which holds the numbers of a tile's sum in twos of quads: both of a pair that is rotated,
/// half a head apart.
template <int kHeadDim>
struct GradientRows {
  static constexpr int kHeads = 4;  ///< of a block, one after another: they rotate by the same angles
  static constexpr int kPitch = kHeadDim + 8;
  static constexpr int kTwos = gradient_tile_floats(kHeadDim) / 8;
  static constexpr int kTwosOfThread = kTwos / kGradientRowThreads;
  static constexpr int kApart = kTwos / (GradientShape<kHeadDim>::kHalvesQueries ? 2 : 1);
  /// Shared memory: a query tile in rows.
  alignas(16) bf16 elements[gradient_query_tile(kHeadDim) * kPitch];

  /// The first quad of the thread's two number `i`.
  __device__ static int quad(int i) {
    const int two = i * kGradientRowThreads + static_cast<int>(threadIdx.x);
    return two / kApart * (2 * kApart) + two % kApart;
  }
};

/// Four neighbouring numbers of a query tile's sum, as sum_fragment has them.
struct SumQuad {
  float2 rows[2];

  __device__ explicit SumQuad(const float4& quad) : rows{make_float2(quad.x, quad.y), make_float2(quad.z, quad.w)} {}
  /// To its place in a tile of bf16, times `scale`.
  __device__ void store(bf16* place, int pitch, float scale) const {
    *reinterpret_cast<uint32_t*>(place) = pack_bf16(rows[0].x * scale, rows[0].y * scale);
    *reinterpret_cast<uint32_t*>(place + 8 * pitch) = pack_bf16(rows[1].x * scale, rows[1].y * scale);
  }
};

/// Of a thread's twos, both rows of each.
template <int kHeadDim>
__device__ void load_gradient_angles(PairAngles (&angles)[GradientRows<kHeadDim>::kTwosOfThread][2],
                                     const AttentionArguments& arguments, int tile) {
#pragma unroll
  for (int i = 0; i < GradientRows<kHeadDim>::kTwosOfThread; ++i) {
    const GradientFragment at = sum_fragment<kHeadDim>(GradientRows<kHeadDim>::quad(i));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile * gradient_query_tile(kHeadDim) + at.row + 8 * half;
      const int token = min(row, arguments.num_tokens - 1);  // rows behind the last one are not written
      angles[i][half] = PairAngles::load(arguments.angles, arguments.angles.positions[token], kHeadDim, at.column);
    }
  }
}

/// scale times the summed dQ of one tile and the heads of blocks `first_slot` .. `end_slot`, to their columns of dqkv;
/// zeros in rows of no document.
template <int kHeadDim>
__device__ void finish_gradient_rows(const AttentionArguments& arguments, const DocumentTable& table,
                                     const GradientBuffers& buffers, int tile, int first_slot, int end_slot,
                                     GradientRows<kHeadDim>& shared) {
  using Rows = GradientRows<kHeadDim>;
  constexpr int kQueries = gradient_query_tile(kHeadDim);
  constexpr int kChunks = kHeadDim / 8;
  const int thread = static_cast<int>(threadIdx.x);
  const int rows = document_rows(table) - tile * kQueries;
  const bool rotates = arguments.angles.table != nullptr && rows > 0;
  PairAngles angles[Rows::kTwosOfThread][2];
  if (rotates) load_gradient_angles<kHeadDim>(angles, arguments, tile);
  float largest = 0;
#pragma unroll 1
  for (int slot = first_slot; slot < end_slot; ++slot) {
    const int head = arguments.query_head(slot);
    const int64_t item = int64_t{head} * tiles_of<kQueries>(arguments.num_tokens) + tile;
    const float4* const sum = reinterpret_cast<const float4*>(buffers.dqueries + item * gradient_tile_floats(kHeadDim));
    if (rows > 0) {
#pragma unroll
      for (int i = 0; i < Rows::kTwosOfThread; ++i) {
        const int quad = Rows::quad(i);
        const GradientFragment at = sum_fragment<kHeadDim>(quad);
        SumQuad low(sum[quad]);
        SumQuad high(sum[quad + Rows::kApart]);
        if (rotates) {
#pragma unroll
          for (int half = 0; half < 2; ++half) angles[i][half].rotate_back(low.rows[half], high.rows[half]);
        }
        bf16* const place = shared.elements + at.row * Rows::kPitch + at.column;
        low.store(place, Rows::kPitch, arguments.scale);
        high.store(place + kHeadDim / 2, Rows::kPitch, arguments.scale);
      }
    }
    __syncthreads();
    for (int chunk = thread; chunk < kQueries * kChunks; chunk += kGradientRowThreads) {
      const int row = chunk / kChunks;
      const int column = chunk % kChunks * 8;
      const int64_t token = int64_t{tile} * kQueries + row;
      if (token >= arguments.num_tokens) break;
      Pack<bf16, 8> value = {};
      if (row < rows) value = load_pack<8>(shared.elements + row * Rows::kPitch + column);
      bf16* const dqkv = static_cast<bf16*>(arguments.dqkv);
      *reinterpret_cast<Pack<bf16, 8>*>(dqkv + token * arguments.qkv_stride() + head * kHeadDim + column) = value;
      if (arguments.abs_max == nullptr) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) largest = larger_magnitude(largest, value[i]);
    }
    __syncthreads();
  }
  if (arguments.abs_max != nullptr) raise_abs_max(arguments.abs_max, largest);
}

/// The same of a part: adds to `dqueries`, or, where it is the first part, writes them, with zeros where nothing is
/// seen.
template <int kHeadDim>
__device__ void add_gradient_rows(const AttentionArguments& arguments, const DocumentTable& table,
                                  const GradientBuffers& buffers, int tile, int slot) {
  constexpr int kQueries = gradient_query_tile(kHeadDim);
  const bool has_sum = buffers.first_key_tile[tile] != kNoKeyTile;
  if (!has_sum && !arguments.first) return;
  const int head = arguments.query_head(slot);
  const int64_t item = int64_t{head} * tiles_of<kQueries>(arguments.num_tokens) + tile;
  const float4* const sum = reinterpret_cast<const float4*>(buffers.dqueries + item * gradient_tile_floats(kHeadDim));
  const int first = tile * kQueries;
  const int written = arguments.num_tokens - first;
  const int summed =
      has_sum ? rows_of_rank(arguments, arguments.part.query_rank).before(document_rows(table)) - first : 0;
  float* const destination = arguments.dqueries + first * arguments.out_stride() + head * kHeadDim;
#pragma unroll 4
  for (int i = 0; i < gradient_tile_floats(kHeadDim) / 4 / kGradientRowThreads; ++i) {
    const int quad = i * kGradientRowThreads + static_cast<int>(threadIdx.x);
    const GradientFragment at = sum_fragment<kHeadDim>(quad);
    const float4 value = at.row < summed ? sum[quad] : make_float4(0, 0, 0, 0);
    const float2 shares[2] = {make_float2(value.x, value.y), make_float2(value.z, value.w)};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = at.row + 8 * half;
      if (row >= written || (row >= summed && !arguments.first)) continue;
      float2* const pair = reinterpret_cast<float2*>(destination + row * arguments.out_stride() + at.column);
      float2 total = arguments.first ? make_float2(0, 0) : *pair;
      if (row < summed) {
        total.x += arguments.scale * shares[half].x;
        total.y += arguments.scale * shares[half].y;
      }
      *pair = total;
    }
  }
}

}  // namespace litespark::cuda
