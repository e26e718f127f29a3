// SPDX-License-Identifier: Apache-2.0
// Which rows meet in whole attention and in a part that context ranks share, so that one kernel serves both: a block's
// queries walk the keys of their document in one chunk after another, or its keys the queries. And how what a part sees
// joins what earlier parts saw.
#pragma once

#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/document_tile.cuh"

namespace litespark::cuda {

/// Chunks that a rank holds, and blocks along z of a part's grid.
inline constexpr int kChunksOfRank = 2;

__host__ __device__ inline DocumentTable document_table(const AttentionArguments& arguments) {
  return {.offsets = arguments.offsets,
          .num_documents = arguments.num_documents,
          .max_documents = arguments.max_documents,
          .num_tokens = arguments.num_tokens,
          .uniform_length = arguments.uniform_length};
}

__device__ inline RowChunk chunk_of_rank(const AttentionArguments& arguments, int rank, int half) {
  const int length = arguments.num_tokens / kChunksOfRank;
  const int64_t chunk = op::context_chunk(arguments.part.ranks, rank, half);
  return {.first = static_cast<int>(chunk) * length, .length = length, .row = half * length};
}
__device__ inline RowChunk query_chunk(const AttentionArguments& arguments, int half) {
  return chunk_of_rank(arguments, arguments.part.query_rank, half);
}
__device__ inline RowChunk key_chunk(const AttentionArguments& arguments, int half) {
  return chunk_of_rank(arguments, arguments.part.key_rank, half);
}
__device__ inline RankRows rows_of_rank(const AttentionArguments& arguments, int rank) {
  return {.early = chunk_of_rank(arguments, rank, 0), .late = chunk_of_rank(arguments, rank, 1)};
}

/// The tile of queries (or of keys) of block `slot`, `half` being the chunk of a part.
template <bool kIsPart, int kTile = kAttentionTile>
__device__ DocumentTileOf<kTile> find_query_tile(const AttentionArguments& arguments, int slot, int half) {
  if constexpr (kIsPart) return find_tile<kTile>(document_table(arguments), query_chunk(arguments, half), slot);
  return find_tile<kTile>(document_table(arguments), slot);
}
template <bool kIsPart, int kTile = kAttentionTile>
__device__ DocumentTileOf<kTile> find_key_tile(const AttentionArguments& arguments, int slot, int half) {
  if constexpr (kIsPart) return find_tile<kTile>(document_table(arguments), key_chunk(arguments, half), slot);
  return find_tile<kTile>(document_table(arguments), slot);
}

/// Keys (or queries) of a document that one side's block meets: `begin` is the row of the first.
template <int kTile, int kKeyTile = kTile>
struct MetRows {
  int begin = 0;
  CausalBandOf<kTile, kKeyTile> band;
};

/// Calls body(keys) for each run of keys that queries of `at` see, `half` being their chunk: the latest first.
template <bool kIsPart, int kKeyTile = kAttentionTile, int kTile, class Body>
__device__ void for_each_key_run(const AttentionArguments& arguments, const DocumentTileOf<kTile>& at, int half,
                                 const Body& body) {
  if constexpr (!kIsPart) {
    body(MetRows<kTile, kKeyTile>{.begin = at.begin, .band = {.length = at.length, .window = arguments.window}});
  } else {
    const DocumentTable table = document_table(arguments);
    const RowChunk chunk = query_chunk(arguments, half);
    const ChunkRows queries = document_in_chunk(table, chunk, at.document);
#pragma unroll 1
    for (int key_half = kChunksOfRank - 1; key_half >= 0; --key_half) {
      const RowChunk other = key_chunk(arguments, key_half);
      const ChunkRows keys = document_in_chunk(table, other, at.document);
      if (other.first > chunk.first || keys.length == 0) continue;
      body(MetRows<kTile, kKeyTile>{.begin = keys.begin,
                                    .band = band_of<kTile, kKeyTile>(queries, keys, arguments.window)});
    }
  }
}

/// Calls body(queries) for each run of queries that see keys of `at`, `half` being the keys' chunk: the earliest first.
template <bool kIsPart, int kTile, class Body>
__device__ void for_each_query_run(const AttentionArguments& arguments, const DocumentTileOf<kTile>& at, int half,
                                   const Body& body) {
  if constexpr (!kIsPart) {
    body(MetRows<kTile>{.begin = at.begin, .band = {.length = at.length, .window = arguments.window}});
  } else {
    const DocumentTable table = document_table(arguments);
    const RowChunk chunk = key_chunk(arguments, half);
    const ChunkRows keys = document_in_chunk(table, chunk, at.document);
#pragma unroll 1
    for (int query_half = 0; query_half < kChunksOfRank; ++query_half) {
      const RowChunk other = query_chunk(arguments, query_half);
      const ChunkRows queries = document_in_chunk(table, other, at.document);
      if (other.first < chunk.first || queries.length == 0) continue;
      body(MetRows<kTile>{.begin = queries.begin, .band = band_of<kTile>(queries, keys, arguments.window)});
    }
  }
}

/// Row 0, head 0 of the gradients, which whole attention leaves in dqkv and a part in f32.
template <class T, bool kIsPart>
__device__ auto query_gradients(const AttentionArguments& arguments) {
  if constexpr (kIsPart) {
    return arguments.dqueries;
  } else {
    return static_cast<T*>(arguments.dqkv);
  }
}
template <class T, bool kIsPart>
__device__ auto key_gradients(const AttentionArguments& arguments) {
  if constexpr (kIsPart) {
    return arguments.dkeys_values;
  } else {
    return static_cast<T*>(arguments.dqkv) + arguments.out_stride();
  }
}

/// How a row's unscaled sum over keys in hand joins its earlier result: out = keep * out + factor * sum.
struct MergedRow {
  float keep = 0;
  float factor = 0;
  float log_sum_exp = 0;
};

/// `before`: the log-sum-exp of what was seen earlier, -infinity where that is nothing. It counts as one more key,
/// whose score it is. `maximum` (scaled) and `sum` are those of the keys in hand; the sum is not 0.
__device__ inline MergedRow merge_row(float before, float maximum, float sum) {
  const float now = maximum + logf(sum);
  const float largest = fmaxf(before, now);
  const float earlier = expf(before - largest);
  const float fresh = expf(now - largest);
  const float total = earlier + fresh;
  return {.keep = earlier / total, .factor = fresh / (total * sum), .log_sum_exp = largest + logf(total)};
}

/// Of the two rows whose sums a thread holds: what is written is factor * sum, in addition to keep * what stands there
/// where `adds`.
struct RowFactors {
  float factor[2] = {1, 1};
  float keep[2] = {0, 0};
  bool writes[2] = {true, true};
  bool adds = false;
};

/// Factors of row `half`, whose statistics stand at `stats` if it `exists`, and its new log-sum-exp. `maximum` (scaled)
/// and `sum` are those of the keys in hand; sum 0: none is seen. Lanes that share the row call it together.
__device__ inline float merge_half(RowFactors& factors, int half, const AttentionArguments& arguments, int64_t stats,
                                   bool exists, float maximum, float sum) {
  const bool sees = sum != 0;
  const float before = exists && !arguments.first ? arguments.log_sum_exp[stats] : -INFINITY;
  const MergedRow merged = sees ? merge_row(before, maximum, sum) : MergedRow{.log_sum_exp = -INFINITY};
  factors.factor[half] = merged.factor;
  factors.keep[half] = merged.keep;
  factors.writes[half] = exists && (sees || arguments.first);
  factors.adds = !arguments.first;
  __syncwarp();  // nobody reads the statistics behind who writes them
  return merged.log_sum_exp;
}

/// What a row's softmax leaves once all keys are seen: how its output is scaled, whether it is written, and its
/// log-sum-exp. `stats`: where that of the warp's first row lies, which is row `warp_row` of the `rows` of a tile.
template <bool kIsPart, class State>
__device__ void finish_softmax(RowFactors& factors, const AttentionArguments& arguments, const State& state,
                               int64_t stats, int warp_row, int rows) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = state.sum[half];
    sum += __shfl_xor_sync(kFullWarp, sum, 1);
    sum += __shfl_xor_sync(kFullWarp, sum, 2);
    const int row = lane / 4 + 8 * half;
    const bool exists = warp_row + row < rows;
    const float maximum = state.maximum[half] * arguments.scale;
    float log_sum_exp = 0;
    if constexpr (kIsPart) {
      log_sum_exp = merge_half(factors, half, arguments, stats + row, exists, maximum, sum);
    } else {
      factors.factor[half] = sum > 0 ? 1.0f / sum : 0.0f;
      factors.writes[half] = exists;
      log_sum_exp = maximum + logf(sum);
    }
    if (lane % 4 == 0 && factors.writes[half]) arguments.log_sum_exp[stats + row] = log_sum_exp;
  }
}

/// Writes two neighbouring elements of a row.
__device__ inline void store_pair(float* destination, float first, float second, const RowFactors& factors, int half) {
  float2 value = make_float2(first * factors.factor[half], second * factors.factor[half]);
  if (factors.adds) {
    const float2 before = *reinterpret_cast<const float2*>(destination);
    value.x += factors.keep[half] * before.x;
    value.y += factors.keep[half] * before.y;
  }
  *reinterpret_cast<float2*>(destination) = value;
}

}  // namespace litespark::cuda
