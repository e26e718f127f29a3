// SPDX-License-Identifier: Apache-2.0
// Two products with SwiGLU behind them, in bf16 with fp32 sums: gate and up with h = silu(gate) up, and the gradient of
// h with those of gate and up.
//
// A block has 128 tokens x 256 columns of the product. Its three warpgroups: one whose first warp copies operands (a
// ring of three stages of 64 in depth) while the other three warps read finished tiles out of shared memory, rounded to
// bf16 as a product by itself would leave them, apply SwiGLU and write; and two that multiply 64 tokens each. So the
// multipliers go on with the next tile after some 700 cycles of storing, and what SwiGLU costs is hidden behind the
// 1,024 cycles a stage of the next product. Two blocks below each other share the weights' tile: each copies one half
// of it to both.
//
// A stage and SM: 32 KB of A and B from the L2 cache instead of 48, 48 KB written to and 80 KB read from shared memory.
// Registers: 128 accumulators in a multiplier's thread of 192; the first warpgroup has 120. A fourth warpgroup for
// SwiGLU would be simpler, but the assembler gives no more registers than all threads could have at the start: 128 with
// 512 threads.
#pragma once

#include "ops/cuda/device/cluster.cuh"
#include "ops/cuda/device/hopper_tile.cuh"
#include "ops/cuda/device/swiglu.cuh"
#include "ops/cuda/device/wgmma.cuh"
#include "ops/cuda/heuristics/gated_tiles.h"

namespace litespark::cuda {

enum class GatedPass { kForward, kBackward };

inline constexpr int kGatedStages = 3;
/// Of a thread, after warpgroups have handed each other what they had at the start: 168 each, as many as 384 threads
/// can have in multiples of 8. Who asks for more than was given back waits for ever.
inline constexpr int kGatedFinishRegisters = 120;
inline constexpr int kGatedMultiplyRegisters = 192;
static_assert(kGatedFinishRegisters + 2 * kGatedMultiplyRegisters <= 3 * 168);
/// Threads that apply SwiGLU: the first warpgroup without the warp that copies.
inline constexpr int kGatedFinishers = kWarpgroupThreads - kWarpSize;
inline constexpr int kGatedHalf = kGatedColumns / 2;
inline constexpr int kGatedChunk = 8;  // elements of 16 bytes
inline constexpr uint32_t kGatedStageBytes = (kGatedRows + kGatedColumns) * kGatedDepth * 2;

/// Shared memory; its address is a multiple of 1024.
struct GatedShared {
  bf16 tokens[kGatedStages][kGatedRows * kGatedDepth];
  bf16 weights[kGatedStages][kGatedColumns * kGatedDepth];
  bf16 product[kGatedRows * kGatedColumns];
  uint64_t full[kGatedStages], empty[kGatedStages];
  uint64_t product_full, product_empty;
};

/// Boxes: `tokens` 128 rows; `weights` forward 128 rows of gate_up's weight, backward 64 rows of down's.
struct GatedMaps {
  const CUtensorMap& tokens;
  const CUtensorMap& weights;
};

struct GatedArguments {
  bf16* gate_up = nullptr;           ///< [N, 2 F]: written forward, read backward
  bf16* h = nullptr;                 ///< [N, F], forward
  bf16* gate_up_gradient = nullptr;  ///< [N, 2 F], backward; may be gate_up
  GatedGrid grid;
  int depth = 0;    ///< C
  int columns = 0;  ///< F

  /// Of h that a tile has: half of the product's columns are gates forward.
  template <GatedPass kPass>
  static constexpr int columns_of_tile() {
    return kPass == GatedPass::kForward ? kGatedHalf : kGatedColumns;
  }
  __device__ int row_of_block(GatedTile tile) const {
    return tile.first_row + static_cast<int>(cluster_rank()) * kGatedRows;
  }
};

/// Calls body(tile) for each tile of this block's cluster, in order.
template <class Body>
__device__ void for_each_gated_tile(const GatedArguments& arguments, Body&& body) {
  for (int index = cluster_number(); index < arguments.grid.num_tiles(); index += num_clusters()) {
    body(arguments.grid.at(index));
  }
}

__device__ inline void init_gated_barriers(GatedShared& shared) {
  for (int stage = 0; stage < kGatedStages; ++stage) {
    barrier_init(shared_address(&shared.full[stage]), 1);
    barrier_init(shared_address(&shared.empty[stage]), kConsumerArrivals * kGatedCluster);
  }
  barrier_init(shared_address(&shared.product_full), kConsumerArrivals);
  barrier_init(shared_address(&shared.product_empty), kGatedFinishers / kWarpSize * kWarpArrivals);
  barrier_init_fence();
}

/// One thread: keeps the ring full. What it shares with the other block may only be overwritten when both have read it.
template <GatedPass kPass>
__device__ void copy_operands(GatedShared& shared, const GatedArguments& arguments, const GatedMaps& maps) {
  constexpr auto kEveryBlock = static_cast<uint16_t>((1 << kGatedCluster) - 1);
  const int rank = static_cast<int>(cluster_rank());
  PipelineState<kGatedStages> state;
  for_each_gated_tile(arguments, [&](GatedTile tile) {
    const int row = arguments.row_of_block(tile);
    const int column = tile.column * GatedArguments::columns_of_tile<kPass>();
    for (int depth = 0; depth < arguments.depth; depth += kGatedDepth) {
      const uint32_t full = shared_address(&shared.full[state.stage]);
      const uint32_t weights = shared_address(shared.weights[state.stage]);
      barrier_wait(shared_address(&shared.empty[state.stage]), state.empty_parity());
      barrier_expect(full, kGatedStageBytes);
      load_box(shared_address(shared.tokens[state.stage]), maps.tokens, {.column = depth, .row = row}, full);
      if constexpr (kPass == GatedPass::kForward) {
        // Rows of one panel: the gates' by one block, those of up below them by the other.
        load_box_to_blocks(weights + static_cast<uint32_t>(rank * kGatedHalf * kPanelRowBytes), maps.weights,
                           {.column = depth, .row = column + rank * arguments.columns}, full, kEveryBlock);
      } else {
        for (int panel = 2 * rank; panel < 2 * rank + 2; ++panel) {
          load_box_to_blocks(weights + static_cast<uint32_t>(panel * kGatedDepth * kPanelRowBytes), maps.weights,
                             {.column = column + panel * kPanelColumns, .row = depth}, full, kEveryBlock);
        }
      }
      state.advance();
    }
  });
}

/// Issues the products of one stage; `tokens` is the address of the warpgroup's first row.
template <GatedPass kPass>
__device__ void issue_gated_products(float (&sum)[kGatedHalf], uint32_t tokens, uint32_t weights, bool accumulate) {
#pragma unroll
  for (int step = 0; step < kGatedDepth / 16; ++step) {
    const uint64_t a = matrix_descriptor(tokens + k_major_offset(kGatedRows, step), 0, kRowGroupBytes);
    if constexpr (kPass == GatedPass::kForward) {
      const uint64_t b = matrix_descriptor(weights + k_major_offset(kGatedColumns, step), 0, kRowGroupBytes);
      Wgmma<kGatedColumns>::multiply<0>(sum, a, b, accumulate || step > 0);
    } else {
      const uint64_t b =
          matrix_descriptor(weights + mn_major_offset(step), mn_major_leading(kGatedDepth), kRowGroupBytes);
      Wgmma<kGatedColumns>::multiply<1>(sum, a, b, accumulate || step > 0);
    }
  }
}

/// The calling warp hands a stage back to the copiers of all blocks that write into it.
__device__ inline void release_to_blocks(uint64_t* barrier) {
  __syncwarp();
  const uint32_t lane = threadIdx.x % kWarpSize;
#pragma unroll
  for (uint32_t rank = 0; rank < kGatedCluster; ++rank) {
    if (kWarpArrivals > 1 || lane == rank) arrive_at_block(shared_address(barrier), rank);
  }
}

/// Rounds a warpgroup's 64 rows of sums into the product's tile.
__device__ inline void store_product(GatedShared& shared, const float (&sum)[kGatedHalf], int warp_row) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const uint32_t first = panel_byte(kGatedRows, warp_row + stmatrix_row(lane), stmatrix_column(lane));
#pragma unroll
  for (int block = 0; block < kGatedColumns / 16; ++block) {
    uint32_t packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = pack_bf16(sum[8 * block + 2 * i], sum[8 * block + 2 * i + 1]);
    store_matrix(shared_address(shared.product) + advance_columns(first, kGatedRows, block), packed);
  }
}

/// A warpgroup's 64 rows of every tile.
template <GatedPass kPass>
__device__ void multiply_gated(GatedShared& shared, const GatedArguments& arguments, int warpgroup) {
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize;
  const auto row_bytes = static_cast<uint32_t>(warpgroup * 64 * kPanelRowBytes);
  float sum[kGatedHalf];
  PipelineState<kGatedStages> state;
  PipelineState<1> product;
  for_each_gated_tile(arguments, [&](GatedTile) {
    int last = -1;  // stage that the products under way read
    for (int depth = 0; depth < arguments.depth; depth += kGatedDepth) {
      barrier_wait(shared_address(&shared.full[state.stage]), state.full_parity());
      hold_registers(sum);
      wgmma_fence();
      issue_gated_products<kPass>(sum, shared_address(shared.tokens[state.stage]) + row_bytes,
                                  shared_address(shared.weights[state.stage]), depth > 0);
      wgmma_commit();
      if (last >= 0) {
        wgmma_wait<1>();
        release_to_blocks(&shared.empty[last]);
      }
      last = state.stage;
      state.advance();
    }
    wgmma_wait<0>();
    hold_registers(sum);
    release_to_blocks(&shared.empty[last]);
    barrier_wait(shared_address(&shared.product_empty), product.empty_parity());
    store_product(shared, sum, warpgroup * 64 + warp * 16);
    release(&shared.product_full);
    product.advance();
  });
}

/// Eight neighbouring elements of a tile of the product.
__device__ inline void load_product(const GatedShared& shared, int row, int column, float (&values)[kGatedChunk]) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(shared.product);
  load_floats(reinterpret_cast<const bf16*>(bytes + panel_byte(kGatedRows, row, column)), values);
}

/// Where a thread that finishes stands: its column of the tile, and the first of its rows; others follow kRowStep
/// further on. Neighbouring threads have neighbouring chunks of a token.
template <GatedPass kPass>
struct GatedPlace {
  static constexpr int kColumns = GatedArguments::columns_of_tile<kPass>();
  static constexpr int kChunks = kColumns / kGatedChunk;
  static constexpr int kRowStep = kGatedFinishers / kChunks;

  int tile_column = 0;
  int first_row = 0;

  static __device__ GatedPlace of_thread() {
    const int thread = static_cast<int>(threadIdx.x) - kWarpSize;
    return {.tile_column = thread % kChunks * kGatedChunk, .first_row = thread / kChunks};
  }
};

/// Rows of the calling block's tile that are tokens.
__device__ inline int rows_of_tile(const GatedArguments& arguments, int first_token) {
  const int64_t left = arguments.grid.rows - first_token;
  return left < kGatedRows ? static_cast<int>(left) : kGatedRows;
}

/// Writes gate, up and h of a tile.
__device__ inline void finish_forward(const GatedShared& shared, const GatedArguments& arguments, GatedTile tile) {
  using Place = GatedPlace<GatedPass::kForward>;
  const Place place = Place::of_thread();
  const int column = tile.column * Place::kColumns + place.tile_column;
  if (column >= arguments.columns) return;
  const int first = arguments.row_of_block(tile);
  const int rows = rows_of_tile(arguments, first);
#pragma unroll 2
  for (int row = place.first_row; row < rows; row += Place::kRowStep) {
    float gate[kGatedChunk];
    float up[kGatedChunk];
    float h[kGatedChunk];
    load_product(shared, row, place.tile_column, gate);
    load_product(shared, row, kGatedHalf + place.tile_column, up);
#pragma unroll
    for (int i = 0; i < kGatedChunk; ++i) h[i] = swiglu<bf16>(gate[i], up[i]);
    const int64_t token = first + row;
    bf16* const wide = arguments.gate_up + token * 2 * arguments.columns + column;
    store_floats(wide, gate);
    store_floats(wide + arguments.columns, up);
    store_floats(arguments.h + token * arguments.columns + column, h);
  }
}

/// Gate and up of some rows, on their way from memory.
inline constexpr int kGatedBatch = 4;
struct GatedInputs {
  Pack<bf16, kGatedChunk> gate[kGatedBatch], up[kGatedBatch];
};

/// Starts reading a thread's kGatedBatch rows from `row` on, `source` being its gates of the tile's first token.
__device__ inline void load_inputs(GatedInputs& inputs, const bf16* source, int64_t columns, int row, int rows) {
#pragma unroll
  for (int i = 0; i < kGatedBatch; ++i) {
    const int at = row + i * GatedPlace<GatedPass::kBackward>::kRowStep;
    if (at >= rows) break;
    inputs.gate[i] = load_pack<kGatedChunk>(source + at * 2 * columns);
    inputs.up[i] = load_pack<kGatedChunk>(source + at * 2 * columns + columns);
  }
}

/// Writes the gradients of kGatedBatch of a thread's rows.
__device__ inline void finish_batch(const GatedShared& shared, GatedInputs& inputs, bf16* destination, int64_t columns,
                                    int tile_column, int row, int rows) {
#pragma unroll
  for (int i = 0; i < kGatedBatch; ++i) {
    const int at = row + i * GatedPlace<GatedPass::kBackward>::kRowStep;
    if (at >= rows) break;
    keep_packed(inputs.gate[i]);
    keep_packed(inputs.up[i]);
    float gate[kGatedChunk];
    float up[kGatedChunk];
    float dh[kGatedChunk];
    load_product(shared, at, tile_column, dh);
#pragma unroll
    for (int j = 0; j < kGatedChunk; ++j) {
      const SwiGluGradient gradient = swiglu_gradient<bf16>(inputs.gate[i][j], inputs.up[i][j], dh[j]);
      gate[j] = gradient.gate;
      up[j] = gradient.up;
    }
    bf16* const out = destination + int64_t{at} * 2 * columns;
    store_floats(out, gate);
    store_floats(out + columns, up);
  }
}

/// Writes a tile's gradients of gate and up, perhaps over gate and up. Those are always read a batch ahead, the first
/// one before the tile is there: they come slowly beside the copies of operands, and three warps have little else to
/// wait with.
__device__ inline void finish_backward(GatedShared& shared, const GatedArguments& arguments, GatedTile tile,
                                       uint32_t parity) {
  using Place = GatedPlace<GatedPass::kBackward>;
  constexpr int kStep = kGatedBatch * Place::kRowStep;
  const Place place = Place::of_thread();
  const int column = tile.column * Place::kColumns + place.tile_column;
  const int first = arguments.row_of_block(tile);
  const int rows = column < arguments.columns ? rows_of_tile(arguments, first) : 0;
  const int64_t start = int64_t{first} * 2 * arguments.columns + column;
  const bf16* const source = arguments.gate_up + start;
  bf16* const destination = arguments.gate_up_gradient + start;
  GatedInputs inputs[2];
  load_inputs(inputs[0], source, arguments.columns, place.first_row, rows);
  barrier_wait(shared_address(&shared.product_full), parity);
#pragma unroll 1
  for (int row = place.first_row; row < rows; row += 2 * kStep) {
    load_inputs(inputs[1], source, arguments.columns, row + kStep, rows);
    finish_batch(shared, inputs[0], destination, arguments.columns, place.tile_column, row, rows);
    load_inputs(inputs[0], source, arguments.columns, row + 2 * kStep, rows);
    finish_batch(shared, inputs[1], destination, arguments.columns, place.tile_column, row + kStep, rows);
  }
}

/// Three warps: what becomes of finished tiles.
template <GatedPass kPass>
__device__ void finish_gated(GatedShared& shared, const GatedArguments& arguments) {
  PipelineState<1> product;
  for_each_gated_tile(arguments, [&](GatedTile tile) {
    if constexpr (kPass == GatedPass::kForward) {
      barrier_wait(shared_address(&shared.product_full), product.full_parity());
      finish_forward(shared, arguments, tile);
    } else {
      finish_backward(shared, arguments, tile, product.full_parity());
    }
    release(&shared.product_empty);
    product.advance();
  });
}

/// A block's whole life; every thread of the cluster's blocks comes here.
template <GatedPass kPass>
__device__ void gated_product_block(GatedShared& shared, const GatedArguments& arguments, const GatedMaps& maps) {
  if (threadIdx.x == 0) init_gated_barriers(shared);
  cluster_arrive();
  cluster_wait();
  const int role = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<kGatedFinishRegisters>();
    if (threadIdx.x >= kWarpSize) {
      finish_gated<kPass>(shared, arguments);
    } else if (threadIdx.x == 0) {
      copy_operands<kPass>(shared, arguments, maps);
    }
  } else {
    take_registers<kGatedMultiplyRegisters>();
    multiply_gated<kPass>(shared, arguments, role - 1);
  }
  // Nobody leaves while the other may still write into its memory.
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}

}  // namespace litespark::cuda
