// SPDX-License-Identifier: Apache-2.0
// The block of the Hopper attention backward (Shah et al. 2024, "FlashAttention-3", with an order of our own): it owns
// 128 keys of one head and walks the query tiles that see them, for every query head of the group, so that dK and dV
// never leave registers before they are whole. Scores are computed transposed (keys as rows): P^T and dS^T then are A
// operands where they stand, and a row's mask is two numbers that a thread keeps. dS^T also goes to shared memory, from
// where dQ = dS K is computed; its sum over the key tiles is kept in global memory, in a fixed order.
#pragma once

#include "ops/cuda/device/abs_max.cuh"
#include "ops/cuda/device/attention_gradient_work.cuh"
#include "ops/cuda/device/hopper_tile.cuh"
#include "ops/cuda/device/rotary.cuh"
#include "ops/cuda/device/turns.cuh"
#include "ops/cuda/device/wgmma.cuh"

namespace litespark::cuda {

inline constexpr int kGradientStages = 2;

/// How the warpgroups share a step's dQ, by halves: queries of D = 64, else columns. And how tiles lie in shared
/// memory.
///
/// A step of a block, and what a consumer holds in registers; dQ lies in some of those that dP leaves, as do S and dP
/// in bf16. Shared memory of tiles: keys and values, two stages of queries and dout, two of dS, dQ.
///
///   heads of                                        64                  96                  128
///   queries of a step                               128                 64                  64
///   tensor cores, clocks                            2560                1920                2560
///   shared memory read by wgmma, else moved, KiB    240, 112            176, 88             256, 112
///   tiles from L2, dQ to it, KiB                    32, 32              24, 24              32, 32
///   dK and dV, S and dP, both in bf16, dQ           64, 128, 64, 32     96, 64, 32, 24      128, 64, 32, 32
///   values                                                              24
///   shared memory, KiB                              32+64+64+32 = 192   48+48+32+24 = 152   64+64+32+32 = 192
///
/// Heads of 256 have no such kernel: dK and dV of 64 keys are 256 registers, more than a thread has.
template <int kHeadDim>
struct GradientShape {
  static constexpr int kQueries = gradient_query_tile(kHeadDim);
  static constexpr bool kHalvesQueries = kQueries == 128;
  static constexpr int kDqueryColumns = kHalvesQueries ? kHeadDim : kHeadDim / 2;  ///< of a warpgroup
  static constexpr int kDqueries = kDqueryColumns / 2;                             ///< accumulators of 64 rows of them
  static constexpr int kTileFloats = gradient_tile_floats(kHeadDim);
  static constexpr int kRowBytes = panel_row_bytes(kHeadDim);  ///< of panels of queries and dout
  /// Of keys, and of values, which the same map describes: either half of the columns begins with a panel. Of 96 these
  /// are 48 columns, three panels of 16; they are copied once a block.
  static constexpr int kKeyRowBytes = panel_row_bytes(kDqueryColumns);
  /// Whether a warpgroup keeps its values in registers, as operand of dP: a twelfth less of shared memory is read.
  /// Heads of 96 leave room for that, others do not.
  static constexpr bool kKeepsValues = kHeadDim == 96;
  static constexpr int kSteps = kHeadDim / 16;  ///< of products that sum over a head
};

/// Copies of tiles: of 128 rows of qkv (of a part: of keys_values), and of a query tile's rows of qkv and dout.
struct GradientMaps {
  const CUtensorMap& keys;
  const CUtensorMap& queries;
  const CUtensorMap& douts;
};

/// Shared memory; its address is a multiple of 1024.
template <int kHeadDim>
struct GradientShared {
  using Shape = GradientShape<kHeadDim>;
  static constexpr int kQueries = Shape::kQueries;
  bf16 keys[kGradientKeyTile * kHeadDim];
  bf16 values[kGradientKeyTile * kHeadDim];
  bf16 queries[kGradientStages][kQueries * kHeadDim];
  bf16 douts[kGradientStages][kQueries * kHeadDim];
  bf16 dscores[2][kGradientKeyTile * kQueries];  ///< of two steps; rows are keys
  float dqueries[2][Shape::kTileFloats / 2];     ///< of each warpgroup
  float statistics[kGradientStages][2 * kQueries];
  uint64_t keys_full;
  uint64_t queries_full[kGradientStages], queries_empty[kGradientStages];
  uint64_t douts_full[kGradientStages], douts_empty[kGradientStages];
  uint64_t dscores_full[2];
  uint64_t dqueries_full[2], dqueries_empty[2];
  int slot;
  int kv_head;    ///< of the slot; here, since the consumers' registers are all taken
  int num_heads;  ///< of its group, that are on
};

template <int kHeadDim>
__device__ void init_barriers(GradientShared<kHeadDim>& shared) {
  barrier_init(shared_address(&shared.keys_full), 1);
  for (int i = 0; i < kGradientStages; ++i) {
    barrier_init(shared_address(&shared.queries_full[i]), 1);
    barrier_init(shared_address(&shared.douts_full[i]), 1);
    barrier_init(shared_address(&shared.queries_empty[i]), kConsumerArrivals);
    barrier_init(shared_address(&shared.douts_empty[i]), kConsumerArrivals);
  }
  for (int i = 0; i < 2; ++i) {
    barrier_init(shared_address(&shared.dscores_full[i]), kConsumerArrivals);
    barrier_init(shared_address(&shared.dqueries_full[i]), kConsumerArrivals / 2);
    barrier_init(shared_address(&shared.dqueries_empty[i]), 1);
  }
  barrier_init_fence();
}

/// One thread: loads the block's keys and values, then keeps the rings of queries and output gradients full.
template <int kHeadDim, bool kIsPart>
__device__ void load_steps(GradientShared<kHeadDim>& shared, const GradientArguments& arguments,
                           const GradientMaps& maps, const GradientBlock& block) {
  using Shape = GradientShape<kHeadDim>;
  constexpr int kQueries = Shape::kQueries;
  constexpr uint32_t kTileBytes = kQueries * kHeadDim * 2;
  constexpr uint32_t kStatisticsBytes = 2 * kQueries * 4;
  const int key_column = ((kIsPart ? 0 : arguments.num_heads) + shared.kv_head) * kHeadDim;
  barrier_expect(shared_address(&shared.keys_full), 2 * kGradientKeyTile * kHeadDim * 2);
  load_rows<kGradientKeyTile, kHeadDim, Shape::kKeyRowBytes>(
      shared.keys, maps.keys, {.column = key_column, .row = block.first_key()}, &shared.keys_full);
  load_rows<kGradientKeyTile, kHeadDim, Shape::kKeyRowBytes>(
      shared.values, maps.keys, {.column = key_column + arguments.num_kv_heads * kHeadDim, .row = block.first_key()},
      &shared.keys_full);
  const int num_query_tiles = tiles_of<kQueries>(arguments.num_tokens);
  PipelineState<kGradientStages> state;
  for (int tile = block.query_tiles.end - 1; tile >= block.query_tiles.begin; --tile) {
#pragma unroll 1
    for (int i = 0; i < arguments.group(); ++i) {
      const int head = shared.kv_head * arguments.group() + i;
      if (!arguments.gates.is_on(head)) continue;
      const BoxCoordinate at{.column = head * kHeadDim, .row = tile * kQueries};
      uint64_t* const queries_full = &shared.queries_full[state.stage];
      barrier_wait(shared_address(&shared.queries_empty[state.stage]), state.empty_parity());
      barrier_expect(shared_address(queries_full), kTileBytes + kStatisticsBytes);
      load_rows<kQueries, kHeadDim, Shape::kRowBytes>(shared.queries[state.stage], maps.queries, at, queries_full);
      const int64_t statistics = (int64_t{head} * num_query_tiles + tile) * (2 * kQueries);
      load_bytes(shared_address(shared.statistics[state.stage]), arguments.buffers.statistics + statistics,
                 kStatisticsBytes, shared_address(queries_full));
      uint64_t* const douts_full = &shared.douts_full[state.stage];
      barrier_wait(shared_address(&shared.douts_empty[state.stage]), state.empty_parity());
      barrier_expect(shared_address(douts_full), kTileBytes);
      load_rows<kQueries, kHeadDim, Shape::kRowBytes>(shared.douts[state.stage], maps.douts, at, douts_full);
      state.advance();
    }
  }
}

/// One thread: adds each step's dQ to the query tile's sum in global memory. kOrdered: when it is this block's turn;
/// the first one writes, so that nobody has to clear the sums.
template <int kHeadDim, bool kOrdered>
__device__ void add_dqueries(GradientShared<kHeadDim>& shared, const GradientArguments& arguments,
                             const GradientBlock& block) {
  using Shape = GradientShape<kHeadDim>;
  constexpr uint32_t kHalfBytes = Shape::kTileFloats / 2 * 4;
  const int num_query_tiles = tiles_of<Shape::kQueries>(arguments.num_tokens);
  uint32_t parity = 0;
  for (int tile = block.query_tiles.end - 1; tile >= block.query_tiles.begin; --tile) {
    int turn = 0;
    if constexpr (kOrdered) {
      turn = GradientOrder::turn(block.key_tile, arguments.buffers.first_key_tile[tile]);
    }
#pragma unroll 1
    for (int i = 0; i < arguments.group(); ++i) {
      const int head = shared.kv_head * arguments.group() + i;
      if (!arguments.gates.is_on(head)) continue;
      const int64_t item = int64_t{head} * num_query_tiles + tile;
      float* const sum = arguments.buffers.dqueries + item * Shape::kTileFloats;
      if constexpr (kOrdered) wait_for_turn(arguments.buffers.turns + item, turn);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        barrier_wait(shared_address(&shared.dqueries_full[half]), parity);
        float* const destination = sum + half * (Shape::kTileFloats / 2);
        if (kOrdered && turn == 0) {
          store_bytes(destination, shared_address(shared.dqueries[half]), kHalfBytes);
        } else {
          add_floats(destination, shared_address(shared.dqueries[half]), kHalfBytes);
        }
        bulk_commit();
      }
      bulk_wait_read<1>();
      barrier_arrive(shared_address(&shared.dqueries_empty[0]));
      bulk_wait_read<0>();
      barrier_arrive(shared_address(&shared.dqueries_empty[1]));
      if constexpr (kOrdered) {
        bulk_wait();
        pass_turn(arguments.buffers.turns + item);
      }
      parity ^= 1;
    }
  }
  bulk_wait();
}

/// Issues the transposed scores of a warpgroup: 64 rows of keys (or values), `rows` being the address of the first,
/// times a tile of queries (or output gradients).
template <int kHeadDim>
__device__ void issue_transposed(float (&scores)[gradient_query_tile(kHeadDim) / 2], uint32_t rows, uint32_t tile) {
  using Shape = GradientShape<kHeadDim>;
  constexpr int kKeyRowBytes = Shape::kKeyRowBytes;
  constexpr int kRowBytes = Shape::kRowBytes;
  const uint64_t a = k_major_descriptor<kKeyRowBytes>(rows);
  const uint64_t b = k_major_descriptor<kRowBytes>(tile);
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    Wgmma<Shape::kQueries>::template multiply<0>(
        scores, advance_descriptor(a, k_major_offset<kKeyRowBytes>(kGradientKeyTile, step)),
        advance_descriptor(b, k_major_offset<kRowBytes>(Shape::kQueries, step)), step > 0);
  }
}

/// A warp's 16 rows of values as A operands, `row` being the tile's row of the first.
template <int kHeadDim>
__device__ void load_values(uint32_t (&packed)[GradientShape<kHeadDim>::kSteps][4], uint32_t values, int row) {
  constexpr int kRowBytes = GradientShape<kHeadDim>::kKeyRowBytes;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const uint32_t first =
      values + panel_byte<kRowBytes>(kGradientKeyTile, row + stmatrix_row(lane), stmatrix_column(lane));
#pragma unroll
  for (int step = 0; step < GradientShape<kHeadDim>::kSteps; ++step) {
    load_matrix(packed[step], advance_columns<kRowBytes>(first, kGradientKeyTile, step));
  }
}

/// Issues the transposed gradients of probabilities: values, in registers, times a tile of output gradients.
template <int kHeadDim>
__device__ void issue_transposed(float (&gradients)[gradient_query_tile(kHeadDim) / 2],
                                 const uint32_t (&values)[GradientShape<kHeadDim>::kSteps][4], uint32_t tile) {
  using Shape = GradientShape<kHeadDim>;
  constexpr int kRowBytes = Shape::kRowBytes;
  const uint64_t b = k_major_descriptor<kRowBytes>(tile);
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    Wgmma<Shape::kQueries>::template multiply<0>(
        gradients, values[step], advance_descriptor(b, k_major_offset<kRowBytes>(Shape::kQueries, step)), step > 0);
  }
}

/// Issues sum += weights tile: the weights are a warpgroup's 64 keys x queries, in registers.
template <int kHeadDim>
__device__ void issue_key_sum(float (&sum)[kHeadDim / 2],
                              const uint32_t (&weights)[gradient_query_tile(kHeadDim) / 16][4], uint32_t tile) {
  using Shape = GradientShape<kHeadDim>;
  constexpr int kRowBytes = Shape::kRowBytes;
  const uint64_t b = mn_major_descriptor<kRowBytes>(tile, Shape::kQueries);
#pragma unroll
  for (int step = 0; step < Shape::kQueries / 16; ++step) {
    Wgmma<kHeadDim>::template multiply<1>(sum, weights[step], advance_descriptor(b, mn_major_offset<kRowBytes>(step)),
                                          true);
  }
}

/// Issues a warpgroup's half of dQ = dS K, 64 queries.
template <int kHeadDim>
__device__ void issue_dqueries(float (&sum)[GradientShape<kHeadDim>::kDqueries], uint32_t dscores, uint32_t keys,
                               int warpgroup) {
  using Shape = GradientShape<kHeadDim>;
  constexpr int kKeyRowBytes = Shape::kKeyRowBytes;
  if (Shape::kHalvesQueries) {
    dscores += static_cast<uint32_t>(warpgroup * kGradientKeyTile * kPanelRowBytes);
  } else {
    keys += static_cast<uint32_t>(warpgroup * kGradientKeyTile * Shape::kDqueryColumns * 2);
  }
  constexpr bool kIsOnePanel = Shape::kDqueryColumns * 2 == kKeyRowBytes;  // which has no next one, nor have 64 queries
  const uint32_t leading = kIsOnePanel ? 0 : mn_major_leading<kKeyRowBytes>(kGradientKeyTile);
  const uint64_t a = matrix_descriptor(dscores, 0, kRowGroupBytes);
  const uint64_t b = matrix_descriptor<kKeyRowBytes>(keys, leading, row_group_bytes<kKeyRowBytes>());
#pragma unroll
  for (int step = 0; step < kGradientKeyTile / 16; ++step) {
    Wgmma<Shape::kDqueryColumns>::template multiply<1, 1>(sum, advance_descriptor(a, mn_major_offset(step)),
                                                          advance_descriptor(b, mn_major_offset<kKeyRowBytes>(step)),
                                                          step > 0);
  }
}

/// Zeros where the key does not see the query.
template <int kCount>
__device__ void mask_columns(float (&values)[kCount], const VisibleColumns& visible) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (!visible.sees(i / 2 % 2, accumulator_column(0, i))) values[i] = 0;
  }
}

/// Scores become probabilities: 2^(score scale - log-sum-exp), statistics in units of log2.
template <int kCount>
__device__ void rebuild_probabilities(float (&scores)[kCount], const float* log_sum_exp, float scale_log2) {
#pragma unroll
  for (int j = 0; j < kCount / 4; ++j) {
    const float2 shift = *reinterpret_cast<const float2*>(log_sum_exp + 8 * j);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * j + 2 * half;
      scores[i] = exp2_approximate(scores[i] * scale_log2 - shift.x);
      scores[i + 1] = exp2_approximate(scores[i + 1] * scale_log2 - shift.y);
    }
  }
}

/// dS = P (dP - delta), in the place of dP.
template <int kCount>
__device__ void differentiate(float (&gradients)[kCount], const float (&probabilities)[kCount], const float* delta) {
#pragma unroll
  for (int j = 0; j < kCount / 4; ++j) {
    const float2 shift = *reinterpret_cast<const float2*>(delta + 8 * j);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 4 * j + 2 * half;
      gradients[i] = probabilities[i] * (gradients[i] - shift.x);
      gradients[i + 1] = probabilities[i + 1] * (gradients[i + 1] - shift.y);
    }
  }
}

/// Accumulators as the A operands that they are, in bf16.
template <int kCount>
__device__ void pack_operand(uint32_t (&packed)[kCount / 8][4], const float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) packed[i / 4][i % 4] = pack_bf16(values[2 * i], values[2 * i + 1]);
}

/// A warp's 16 keys of dS^T to the shared tile, `row` being the tile's row of the first.
template <int kQueries>
__device__ void store_dscores(uint32_t tile, const uint32_t (&packed)[kQueries / 16][4], int row) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const uint32_t first = tile + panel_byte(kGradientKeyTile, row + stmatrix_row(lane), stmatrix_column(lane));
#pragma unroll
  for (int step = 0; step < kQueries / 16; ++step) {
    store_matrix(advance_columns(first, kGradientKeyTile, step), packed[step]);
  }
}

/// This warpgroup's part of a step's dQ, for the thread that adds it, once it has taken the last one away.
template <int kHeadDim>
__device__ void hand_over_dqueries(GradientShared<kHeadDim>& shared, int warpgroup, int step,
                                   const float (&sum)[GradientShape<kHeadDim>::kDqueries]) {
  barrier_wait(shared_address(&shared.dqueries_empty[warpgroup]), static_cast<uint32_t>((step + 1) & 1));
  float* const slot = shared.dqueries[warpgroup];
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
#pragma unroll
  for (int c = 0; c < GradientShape<kHeadDim>::kDqueries / 4; ++c) {
    reinterpret_cast<float4*>(slot)[c * kWarpgroupThreads + thread] =
        make_float4(sum[4 * c], sum[4 * c + 1], sum[4 * c + 2], sum[4 * c + 3]);
  }
  async_fence();
  release(&shared.dqueries_full[warpgroup]);
}

/// Until both warpgroups' rows of dS of that step are there; at once before step 0.
template <int kHeadDim>
__device__ void wait_for_dscores(GradientShared<kHeadDim>& shared, int step) {
  barrier_wait(shared_address(&shared.dscores_full[step & 1]), static_cast<uint32_t>((step >> 1) & 1));
}

/// Writes a warp's dK and dV, in bf16 through its own rows of the keys' and values' tiles, which nobody reads any more.
template <int kHeadDim, bool kIsPart>
__device__ void store_key_gradients(GradientShared<kHeadDim>& shared, const GradientArguments& arguments,
                                    const GradientBlock& block, int warp_row, const float (&dkeys)[kHeadDim / 2],
                                    const float (&dvalues)[kHeadDim / 2]) {
  const int64_t stride = key_gradient_stride<kHeadDim, kIsPart>(arguments);
  const int first = block.first_key() + warp_row;
  const int rows = arguments.num_tokens - first;
  auto* const destination = key_gradients_of<kIsPart>(arguments) + first * stride +
                            ((kIsPart ? 0 : arguments.num_heads) + shared.kv_head) * kHeadDim;
  if constexpr (kIsPart) {
    store_accumulators<kHeadDim>(destination, stride, rows, dkeys, arguments.scale);
    store_accumulators<kHeadDim>(destination + arguments.num_kv_heads * kHeadDim, stride, rows, dvalues, 1.0f);
  } else {
    constexpr int kRowBytes = GradientShape<kHeadDim>::kKeyRowBytes;
    const int staging = warp_row * kRowBytes;
    store_accumulators<kGradientKeyTile, kHeadDim, kRowBytes>(destination, stride, rows, dkeys,
                                                              {arguments.scale, arguments.scale},
                                                              reinterpret_cast<unsigned char*>(shared.keys) + staging);
    store_accumulators<kGradientKeyTile, kHeadDim, kRowBytes>(
        destination + arguments.num_kv_heads * kHeadDim, stride, rows, dvalues, {1.0f, 1.0f},
        reinterpret_cast<unsigned char*>(shared.values) + staging);
  }
}

/// Rotates a thread's two rows of accumulators back, `first_row` being the token of the first.
template <int kHeadDim>
__device__ void rotate_back_rows(float (&sum)[kHeadDim / 2], const RotaryAngles& angles, int first_row,
                                 int num_tokens) {
  constexpr int kHigh = kHeadDim / 4;  // accumulators from a pair's lower to its upper number
  const int lane = unknown_value(static_cast<int>(threadIdx.x) % kWarpSize);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half;
    const int position = row < num_tokens ? angles.positions[row] : 0;
#pragma unroll
    for (int i = 2 * half; i < kHigh; i += 4) {
      float2 low = make_float2(sum[i], sum[i + 1]);
      float2 high = make_float2(sum[kHigh + i], sum[kHigh + i + 1]);
      PairAngles::load(angles, position, kHeadDim, accumulator_column(lane, i)).rotate_back(low, high);
      sum[i] = low.x;
      sum[i + 1] = low.y;
      sum[kHigh + i] = high.x;
      sum[kHigh + i + 1] = high.y;
    }
  }
}

/// A warpgroup's 64 keys against all steps of the block; there is at least one. dQ of a step is computed in the next
/// one, so the two warpgroups never stop for each other's dS and may stand half a step apart: the products of one cover
/// what the other does without tensor cores.
template <int kHeadDim, bool kIsPart>
__device__ void consume_steps(GradientShared<kHeadDim>& shared, const GradientArguments& arguments,
                              const GradientBlock& block) {
  using Shape = GradientShape<kHeadDim>;
  constexpr int kQueries = Shape::kQueries;
  const GradientThread<kIsPart> thread(arguments, block);
  const int lane_column = 2 * (static_cast<int>(threadIdx.x) % 4);
  const uint32_t half_rows = static_cast<uint32_t>(thread.warpgroup * 64 * Shape::kKeyRowBytes);
  const uint32_t keys = shared_address(shared.keys);
  const uint32_t values = shared_address(shared.values);
  const float scale_log2 = arguments.scale * kLog2E;
  const int first_unmasked = first_unmasked_query<kIsPart>(arguments, block);
  const int last_unmasked = arguments.buffers.last_query[block.first_key()];
  const int steps = (block.query_tiles.end - block.query_tiles.begin) * shared.num_heads;

  float dkeys[kHeadDim / 2];
  float dvalues[kHeadDim / 2];
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; ++i) dkeys[i] = dvalues[i] = 0;
  float scores[kQueries / 2];
  PipelineState<kGradientStages> state;

  barrier_wait(shared_address(&shared.keys_full), 0);
  uint32_t own_values[Shape::kSteps][4];
  if constexpr (Shape::kKeepsValues) load_values<kHeadDim>(own_values, values, thread.warp_row);
  barrier_wait(shared_address(&shared.queries_full[0]), 0);
  wgmma_fence();
  issue_transposed<kHeadDim>(scores, keys + half_rows, shared_address(shared.queries[0]));
  wgmma_commit();
  wgmma_wait<0>();
  hold_registers(scores);
  int first_query = (block.query_tiles.end - 1) * kQueries;
  int head = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const int stage = state.stage;
    const uint32_t queries = shared_address(shared.queries[stage]);
    const uint32_t douts = shared_address(shared.douts[stage]);
    const float* const statistics = shared.statistics[stage] + lane_column;
    // In the first step there is no dQ yet: the product is of whatever lies there, and is dropped.
    wait_for_dscores(shared, step - 1);
    float dqueries[Shape::kDqueries];
    wgmma_fence();
    issue_dqueries<kHeadDim>(dqueries, shared_address(shared.dscores[(step + 1) % 2]), keys, thread.warpgroup);
    wgmma_commit();
    rebuild_probabilities(scores, statistics, scale_log2);
    const bool masked = first_query < first_unmasked || first_query + kQueries - 1 > last_unmasked;
    if (masked) mask_columns(scores, thread.visible(arguments, first_query));
    hold_registers(scores);
    barrier_wait(shared_address(&shared.douts_full[stage]), state.full_parity());
    wgmma_wait<0>();
    hold_registers(dqueries);
    if (step > 0) hand_over_dqueries(shared, thread.warpgroup, step - 1, dqueries);
    float gradients[kQueries / 2];
    wgmma_fence();
    if constexpr (Shape::kKeepsValues) {
      issue_transposed<kHeadDim>(gradients, own_values, douts);
    } else {
      issue_transposed<kHeadDim>(gradients, values + half_rows, douts);
    }
    wgmma_commit();
    uint32_t probabilities[kQueries / 16][4];
    uint32_t packed[kQueries / 16][4];
    wgmma_wait<0>();
    hold_registers(gradients);
    differentiate(gradients, scores, statistics + kQueries);
    if (masked) mask_columns(gradients, thread.visible(arguments, first_query));
    pack_operand(packed, gradients);
    pack_operand(probabilities, scores);
    store_dscores<kQueries>(shared_address(shared.dscores[step % 2]), packed, thread.warp_row);
    async_fence();
    release(&shared.dscores_full[step % 2]);
    hold_registers(dvalues);
    hold_registers(dkeys);
    wgmma_fence();
    issue_key_sum<kHeadDim>(dvalues, probabilities, douts);
    wgmma_commit();
    issue_key_sum<kHeadDim>(dkeys, packed, queries);
    wgmma_commit();
    state.advance();
    if (step + 1 < steps) barrier_wait(shared_address(&shared.queries_full[state.stage]), state.full_parity());
    // Behind the last step this computes scores of a stale tile, which nobody reads: cheaper than a branch.
    hold_registers(scores);
    wgmma_fence();
    issue_transposed<kHeadDim>(scores, keys + half_rows, shared_address(shared.queries[state.stage]));
    wgmma_commit();
    wgmma_wait<2>();
    hold_registers(dvalues);
    release(&shared.douts_empty[stage]);
    wgmma_wait<1>();
    hold_registers(dkeys);
    release(&shared.queries_empty[stage]);
    wgmma_wait<0>();
    hold_registers(scores);
    if (++head == shared.num_heads) {
      head = 0;
      first_query -= kQueries;
    }
  }
  wait_for_dscores(shared, steps - 1);
  float dqueries[Shape::kDqueries];
  wgmma_fence();
  issue_dqueries<kHeadDim>(dqueries, shared_address(shared.dscores[(steps + 1) % 2]), keys, thread.warpgroup);
  wgmma_commit();
  wgmma_wait<0>();
  hold_registers(dkeys);
  hold_registers(dvalues);
  hold_registers(dqueries);
  hand_over_dqueries(shared, thread.warpgroup, steps - 1, dqueries);
  named_barrier<1, kConsumerThreads>();
  if constexpr (!kIsPart) {
    if (arguments.angles.table != nullptr) {
      rotate_back_rows<kHeadDim>(dkeys, arguments.angles, thread.first_key, arguments.num_tokens);
    }
    if (arguments.abs_max != nullptr) {
      const float of_keys = arguments.scale * larger_magnitude(0, dkeys);
      raise_abs_max_of<bf16>(arguments.abs_max, larger_magnitude(of_keys, dvalues));
    }
  }
  store_key_gradients<kHeadDim, kIsPart>(shared, arguments, block, thread.warp_row, dkeys, dvalues);
}

/// Keys that no query sees: rows of no document, and in a part those that are later than all queries or too early for
/// them. By the consumers.
template <int kHeadDim, bool kIsPart>
__device__ void clear_key_gradients(const GradientShared<kHeadDim>& shared, const GradientArguments& arguments,
                                    const GradientBlock& block) {
  constexpr int kElements = kIsPart ? 4 : 8;
  constexpr int kChunks = kHeadDim / kElements;
  const int64_t stride = key_gradient_stride<kHeadDim, kIsPart>(arguments);
  const int rows = min(kGradientKeyTile, arguments.num_tokens - block.first_key());
  auto* const keys = key_gradients_of<kIsPart>(arguments) + block.first_key() * stride +
                     ((kIsPart ? 0 : arguments.num_heads) + shared.kv_head) * kHeadDim;
  const int thread = static_cast<int>(threadIdx.x) - kWarpgroupThreads;
  for (int i = thread; i < rows * kChunks; i += kConsumerThreads) {
    auto* const chunk = keys + i / kChunks * stride + i % kChunks * kElements;
    *reinterpret_cast<uint4*>(chunk) = make_uint4(0, 0, 0, 0);
    *reinterpret_cast<uint4*>(chunk + arguments.num_kv_heads * kHeadDim) = make_uint4(0, 0, 0, 0);
  }
}

/// The whole block: 384 threads.
template <int kHeadDim, bool kOrdered, bool kIsPart>
__device__ void attention_gradient_block(GradientShared<kHeadDim>& shared, const GradientArguments& arguments,
                                         const GradientMaps& maps) {
  if (threadIdx.x == 0) {
    shared.slot = draw_ticket(arguments.buffers.ticket);
    shared.kv_head = arguments.gates.nth_busy(arguments.group(), arguments.order.work(shared.slot).kv_head);
    shared.num_heads = arguments.gates.num_on(shared.kv_head * arguments.group(), arguments.group());
    init_barriers(shared);
  }
  __syncthreads();
  const GradientBlock block = gradient_block<kHeadDim, kIsPart>(arguments, shared.slot);
  const bool has_steps = block.query_tiles.begin < block.query_tiles.end;
  const int role = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<40>();
    if (has_steps && threadIdx.x == 0) load_steps<kHeadDim, kIsPart>(shared, arguments, maps, block);
    if (has_steps && threadIdx.x == kWarpSize) add_dqueries<kHeadDim, kOrdered>(shared, arguments, block);
  } else {
    take_registers<232>();
    if (!has_steps) return clear_key_gradients<kHeadDim, kIsPart>(shared, arguments, block);
    consume_steps<kHeadDim, kIsPart>(shared, arguments, block);
  }
}

}  // namespace litespark::cuda
