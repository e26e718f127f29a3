// SPDX-License-Identifier: Apache-2.0
// Attention forward for Hopper (Shah et al. 2024, "FlashAttention-3"): one warp copies tiles with the tensor memory
// accelerator, warpgroups own 64 queries each, and the scores of the next key tile are computed by the tensor cores
// while the softmax of the current one runs. Probabilities never leave their registers. A block takes one tile of
// queries after another: the first scores of the next are computed beside the last sum of the one before.
#pragma once

#include "ops/cuda/device/attention_forward_rotary.cuh"
#include "ops/cuda/device/attention_forward_softmax.cuh"
#include "ops/cuda/device/attention_forward_work.cuh"
#include "ops/cuda/device/wgmma_e4m3.cuh"
#include "ops/cuda/tensor_map.h"

namespace litespark::cuda {

/// Barriers of key tiles that were rotated after their copy, where a form rotates them. Their queries were rotated
/// before.
template <class Shape, bool kIsRotated = Shape::kIsRotated>
struct RotatedTiles {};
template <class Shape>
struct RotatedTiles<Shape, true> {
  uint64_t keys[Shape::kKeyStages];
};

/// Shared memory; its address is a multiple of 1024. Whoever copies queries also says what they are. Of two, their
/// places take what comes out of them, too: bf16.
template <int kHeadDim, ForwardForm kForm>
struct ForwardShared {
  using Shape = ForwardShape<kHeadDim, kForm>;
  using Element = typename Shape::Element;
  Element queries[Shape::kQueryStages][Shape::kQueries * kHeadDim * (sizeof(bf16) / sizeof(Element))];
  Element keys[Shape::kKeyStages][Shape::kKeys * kHeadDim];
  Element values[Shape::kValueStages][Shape::kKeys * kHeadDim];
  ForwardWork<kHeadDim, kForm> work[Shape::kWorkPlaces];
  static constexpr int kQueryBarriers = Shape::kQueryStages * Shape::kQueryParts;
  uint64_t queries_full[kQueryBarriers], queries_empty[kQueryBarriers];
  uint64_t keys_full[Shape::kKeyStages], keys_empty[Shape::kKeyStages];
  uint64_t values_full[Shape::kValueStages], values_empty[Shape::kValueStages];
  [[no_unique_address]] RotatedTiles<Shape> rotated;

  /// The barrier of a tile of keys that products may read.
  __device__ const uint64_t* keys_ready(int stage) const {
    if constexpr (Shape::kIsRotated) {
      return &rotated.keys[stage];
    } else {
      return &keys_full[stage];
    }
  }
};

/// Announces and starts the copy of kRows rows of kColumns elements, in panels of kRowBytes.
template <int kRows, int kColumns, int kRowBytes, class Element>
__device__ void load_tile_rows(Element* tile, const CUtensorMap& map, BoxCoordinate at, uint64_t* full) {
  barrier_expect(shared_address(full), kRows * kColumns * static_cast<int>(sizeof(Element)));
  load_rows<kRows, kColumns, kRowBytes>(tile, map, at, full);
}

/// Copies of tiles, and what 8-bit floats are multiplied by.
struct ForwardOperands {
  const CUtensorMap& queries;
  const CUtensorMap& keys;
  const CUtensorMap& values;
  const float* scale = nullptr;
};

/// One warp: finds what the block works on and posts it, clears what sees no key, and has one lane keep the rings of
/// query and key tiles full, from the diagonal to the past. Ahead of queries whose place is not free yet come the first
/// keys.
template <int kHeadDim, ForwardForm kForm>
__device__ void produce_keys(ForwardShared<kHeadDim, kForm>& shared, const AttentionArguments& arguments,
                             const ForwardGrid& grid, const ForwardOperands& operands) {
  using Shape = ForwardShape<kHeadDim, kForm>;
  ForwardQueue<kHeadDim, kForm> queue(arguments, grid);
  PipelineState<Shape::kKeyStages> keys;
  WorkState<Shape> queries;
  const auto wait_for_room = [&](int part) {
    barrier_wait(shared_address(&shared.queries_empty[queries.barrier(part)]), queries.empty_parity());
  };
  for (;;) {
    const auto& work = shared.work[queries.place()];
    if constexpr (!Shape::kHandsBackEarly) wait_for_room(0);
    queue.next(shared.work[queries.place()]);
    if (!work.exists) {
      if (threadIdx.x % kWarpSize == 0) {
        for (int part = 0; part < Shape::kQueryParts; ++part) {
          if constexpr (Shape::kHandsBackEarly) wait_for_room(part);
          barrier_arrive(shared_address(&shared.queries_full[queries.barrier(part)]));
        }
        return_tickets(arguments.tickets, grid.blocks);
      }
      return;
    }
    if (!work.sees()) {
      clear_out<kHeadDim, Shape::kIsPart>(arguments, work.at, work.head);
      __syncwarp();
      continue;
    }
    if (threadIdx.x % kWarpSize == 0) {
      const auto load_queries = [&](int part) {
        load_tile_rows<Shape::kQueryRows, kHeadDim, Shape::kRowBytes>(
            shared.queries[queries.tile()] + part * Shape::kQueryRows * kHeadDim, operands.queries,
            {.column = work.head * kHeadDim, .row = work.at.begin + work.at.first() + part * Shape::kQueryRows},
            &shared.queries_full[queries.barrier(part)]);
      };
      if constexpr (!Shape::kHandsBackEarly) load_queries(0);
      const int column = ((Shape::kIsPart ? 0 : arguments.num_heads) + work.head / arguments.group()) * kHeadDim;
      const TileRange range = work.walk.range();
#pragma unroll 1
      for (int tile = range.end - 1; tile >= range.begin; --tile) {
        barrier_wait(shared_address(&shared.keys_empty[keys.stage]), keys.empty_parity());
        load_tile_rows<Shape::kKeys, kHeadDim, Shape::kRowBytes>(shared.keys[keys.stage], operands.keys,
                                                                 {.column = column, .row = work.first_key(tile)},
                                                                 &shared.keys_full[keys.stage]);
        keys.advance();
        if constexpr (Shape::kHandsBackEarly) {
          for (int part = 0; part < Shape::kQueryParts && tile == range.end - 1; ++part) {
            wait_for_room(part);
            load_queries(part);
          }
        }
      }
    }
    __syncwarp();
    queries.advance();
  }
}

/// One thread: keeps the ring of value tiles full for the work that is posted. Keys run ahead of it.
template <int kHeadDim, ForwardForm kForm>
__device__ void produce_values(ForwardShared<kHeadDim, kForm>& shared, const AttentionArguments& arguments,
                               const ForwardOperands& operands) {
  using Shape = ForwardShape<kHeadDim, kForm>;
  PipelineState<Shape::kValueStages> values;
  WorkState<Shape> queries;
  for (;;) {
    barrier_wait(shared_address(&shared.queries_full[queries.barrier(0)]), queries.full_parity());
    const auto& work = shared.work[queries.place()];
    if (!work.exists) return;
    const int head = (Shape::kIsFp8 ? 0 : (Shape::kIsPart ? 0 : arguments.num_heads) + arguments.num_kv_heads) +
                     work.head / arguments.group();
    const TileRange range = work.walk.range();
#pragma unroll 1
    for (int tile = range.end - 1; tile >= range.begin; --tile) {
      barrier_wait(shared_address(&shared.values_empty[values.stage]), values.empty_parity());
      if constexpr (Shape::kIsFp8) {
        load_tile_rows<kHeadDim, Shape::kKeys, Shape::kRowBytes>(
            shared.values[values.stage], operands.values, {.column = work.first_key(tile), .row = head * kHeadDim},
            &shared.values_full[values.stage]);
      } else {
        load_tile_rows<Shape::kKeys, kHeadDim, Shape::kRowBytes>(
            shared.values[values.stage], operands.values, {.column = head * kHeadDim, .row = work.first_key(tile)},
            &shared.values_full[values.stage]);
      }
      values.advance();
    }
    for (int part = 0; part < Shape::kQueryParts; ++part) {
      // Until a part's queries are there its warpgroup may not have handed back the ones before, and the arrival would
      // count for those.
      if (part > 0) barrier_wait(shared_address(&shared.queries_full[queries.barrier(part)]), queries.full_parity());
      barrier_arrive(shared_address(&shared.queries_empty[queries.barrier(part)]));
    }
    queries.advance();
  }
}

/// A warpgroup: rotates the tiles of the work that is posted, queries and then keys, in the order of their copies.
template <int kHeadDim, ForwardForm kForm, class Angle>
__device__ void rotate_tiles(ForwardShared<kHeadDim, kForm>& shared, const AttentionArguments& arguments) {
  using Shape = ForwardShape<kHeadDim, kForm>;
  constexpr int kRows = RotaryShape<kHeadDim, Angle>::kTileRows;
  static_assert(Shape::kQueries == kRows && Shape::kKeys == kRows && !Shape::kHandsBackEarly);
  const Rotator<kHeadDim, Angle> rotator(arguments);
  PipelineState<Shape::kKeyStages> keys;
  WorkState<Shape> queries;
  for (;; queries.advance()) {
    const int place = queries.place();
    uint64_t* const queries_full = &shared.queries_full[place];
    barrier_wait(shared_address(queries_full), queries.full_parity());
    const auto& work = shared.work[place];
    if (!work.exists) return;
    const TileRange range = work.walk.range();
#pragma unroll 1
    for (int tile = range.end; tile >= range.begin; --tile) {
      const bool is_keys = tile < range.end;
      rotator.rotate(is_keys ? shared.keys[keys.stage] : shared.queries[place],
                     is_keys ? work.first_key(tile) : work.at.begin + work.first,
                     is_keys ? &shared.keys_full[keys.stage] : queries_full,
                     is_keys ? keys.full_parity() : queries.full_parity());
      if (!is_keys) continue;
      release(&shared.rotated.keys[keys.stage]);
      keys.advance();
    }
  }
}

/// Issues scores = queries keys^T for a warpgroup's 64 rows of a tile of kQueryRows, `queries` being the address of the
/// first.
template <class Shape>
__device__ void issue_scores(float (&scores)[Shape::kScores], uint32_t queries, uint32_t keys) {
  constexpr int kRowBytes = Shape::kRowBytes;
  const uint64_t rows = k_major_descriptor<kRowBytes>(queries);
  const uint64_t columns = k_major_descriptor<kRowBytes>(keys);
#pragma unroll
  for (int step = 0; step < Shape::kScoreSteps; ++step) {
    const uint64_t own_rows = advance_descriptor(rows, k_major_offset<kRowBytes>(Shape::kQueryRows, step));
    const uint64_t own_columns = advance_descriptor(columns, k_major_offset<kRowBytes>(Shape::kKeys, step));
    if constexpr (Shape::kIsFp8) {
      WgmmaE4m3<Shape::kKeys>::multiply(scores, own_rows, own_columns, step > 0);
    } else {
      Wgmma<Shape::kKeys>::template multiply<0>(scores, own_rows, own_columns, step > 0);
    }
  }
}

/// Issues out += probabilities values: of 8-bit floats, whose values are transposed.
template <class Shape, int kHeadDim>
__device__ void issue_sum(float (&out)[kHeadDim / 2], const uint32_t (&probabilities)[Shape::kSumSteps][4],
                          uint32_t values) {
  constexpr int kRowBytes = Shape::kRowBytes;
  const uint64_t rows =
      Shape::kIsFp8 ? k_major_descriptor<kRowBytes>(values) : mn_major_descriptor<kRowBytes>(values, Shape::kKeys);
#pragma unroll
  for (int step = 0; step < Shape::kSumSteps; ++step) {
    if constexpr (Shape::kIsFp8) {
      WgmmaE4m3<kHeadDim>::multiply(out, probabilities[step],
                                    advance_descriptor(rows, k_major_offset<kRowBytes>(kHeadDim, step)), true);
    } else {
      Wgmma<kHeadDim>::template multiply<1>(out, probabilities[step],
                                            advance_descriptor(rows, mn_major_offset<kRowBytes>(step)), true);
    }
  }
}

/// Warpgroups take turns at the tensor cores, so that one's softmax falls under the others' products. Every warpgroup
/// takes as many turns.
template <int kWarpgroups>
class Turns {
 public:
  __device__ explicit Turns(int warpgroup) : own_(1 + warpgroup), next_(1 + (warpgroup + 1) % kWarpgroups) {
    if (warpgroup == kWarpgroups - 1) pass();
  }
  __device__ void wait() { named_barrier_wait<2 * kWarpgroupThreads>(own_); }
  __device__ void pass() { named_barrier_arrive<2 * kWarpgroupThreads>(next_); }

 private:
  int own_, next_;
};

/// A warpgroup, which owns 64 queries of every tile.
template <int kHeadDim, ForwardForm kForm>
class ForwardConsumer {
 public:
  using Shape = ForwardShape<kHeadDim, kForm>;
  using Work = ForwardWork<kHeadDim, kForm>;

  __device__ ForwardConsumer(ForwardShared<kHeadDim, kForm>& shared, const AttentionArguments& arguments,
                             const ForwardOperands& operands)
      : shared_(shared),
        arguments_(arguments),
        operand_scale_(scale_of(operands)),
        warpgroup_(__shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads - 1, 0)),
        scale_log2_(arguments.scale * kLog2E * operand_scale_ * operand_scale_),
        turns_(warpgroup_) {}

  __device__ void run() {
    float out[kHeadDim / 2];
    float scores[Shape::kScores];
    Probabilities probabilities;
    while (meet_work(queries_)) {
      skip_unseen();
      if (tile_ < begin_) {
        finish_queries();
        continue;
      }
      Softmax state;
      wait_for_keys();
      wgmma_fence();
      issue_scores<Shape>(scores, own_queries(queries_), shared_address(shared_.keys[keys_.stage]));
      wgmma_commit();
      wgmma_wait<0>();
      hold_registers(scores);
      release_keys();
      finish_scores(state, scores, queries_);
      wait_for_values();
      pack_probabilities(probabilities, scores);
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0;

      for (;;) {  // tiles of queries that follow each other without a pause
        for (--tile_; tile_ >= begin_; --tile_) {
          const Rescale rescale = take_step(state, scores, out, probabilities, queries_);
          pack_probabilities(probabilities, scores);
          if (rescale.is_needed) {
#pragma unroll
            for (int i = 0; i < kHeadDim / 2; ++i) out[i] *= rescale.factor[i / 2 % 2];
          }
        }
        WorkState<Shape> next = queries_;
        next.advance();
        if (Shape::kHandsBackEarly || !meet_work(next) || unseen_ > 0) {
          turns_.wait();
          hold_registers(out);
          wgmma_fence();
          issue_sum<Shape, kHeadDim>(out, probabilities, shared_address(shared_.values[values_.stage]));
          wgmma_commit();
          turns_.pass();
          wgmma_wait<0>();
          hold_registers(out);
          release_values();
          write(state, out);
          finish_queries();
          break;
        }
        const Softmax ended = state;
        state = {};
        take_step(state, scores, out, probabilities, next);
        write(ended, out);
        finish_queries();
        pack_probabilities(probabilities, scores);
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) out[i] = 0;
      }
    }
  }

 private:
  using Probabilities = uint32_t[Shape::kSumSteps][4];

  __device__ static float scale_of(const ForwardOperands& operands) {
    if constexpr (Shape::kIsFp8) return *operands.scale;
    return 1;
  }

  __device__ uint32_t own_queries(const WorkState<Shape>& state) const {
    constexpr int kBytes = Shape::kHandsBackEarly ? 64 * kHeadDim * 2 : 64 * Shape::kRowBytes;
    return shared_address(shared_.queries[state.tile()]) + static_cast<uint32_t>(warpgroup_ * kBytes);
  }

  /// Waits for the work that `state` points to. False where there is none; else tile_, begin_ and unseen_ are its.
  __device__ bool meet_work(const WorkState<Shape>& state) {
    barrier_wait(shared_address(&shared_.queries_full[state.barrier(warpgroup_)]), state.full_parity());
    const Work& work = shared_.work[state.place()];
    if (!work.exists) return false;
    const TileRange range = work.walk.range();
    const int first_query = work.first + 64 * warpgroup_;
    const bool has_queries = static_cast<unsigned>(first_query) < static_cast<unsigned>(work.at.length);
    tile_ = range.end - 1;
    begin_ = range.begin;
    const int last_seen = has_queries ? work.walk.last_seen(min(first_query + 64, work.at.length) - 1) : begin_ - 1;
    unseen_ = tile_ - last_seen;
    if constexpr (!Shape::kIsPart) unmasked_ = work.walk.unmasked(first_query);
    return true;
  }

  __device__ void wait_for_keys() const {
    barrier_wait(shared_address(shared_.keys_ready(keys_.stage)), keys_.full_parity());
  }
  __device__ void wait_for_values() const {
    barrier_wait(shared_address(&shared_.values_full[values_.stage]), values_.full_parity());
  }
  /// With a tile's last keys go the warpgroup's queries, where no output needs their place.
  __device__ void release_keys() {
    release(&shared_.keys_empty[keys_.stage]);
    keys_.advance();
    if (Shape::kHandsBackEarly && tile_ == begin_) hand_back_queries();
  }
  __device__ void release_values() {
    release(&shared_.values_empty[values_.stage]);
    values_.advance();
  }
  /// Tiles of keys at the end of the walk that the warpgroup does not see. A stage may only be handed back once it was
  /// full: else it would count for an earlier use.
  __device__ void skip_unseen() {
    for (; unseen_ > 0; --unseen_, --tile_) {
      wait_for_keys();
      release_keys();
      turns_.wait();
      turns_.pass();
      wait_for_values();
      release_values();
    }
  }
  __device__ void hand_back_queries() {
    release(&shared_.queries_empty[queries_.barrier(warpgroup_)]);
  }
  /// The queries' place was written to, as staging, where it was not handed back before: those writes come before the
  /// next copy.
  __device__ void finish_queries() {
    if constexpr (!Shape::kHandsBackEarly) {
      async_fence();
      hand_back_queries();
    }
    queries_.advance();
  }

  /// Scores of `queries` with the keys at hand, and their softmax, beside the sum with the values of the tile before.
  __device__ Rescale take_step(Softmax& state, float (&scores)[Shape::kScores], float (&out)[kHeadDim / 2],
                               const Probabilities& probabilities, const WorkState<Shape>& queries) {
    wait_for_keys();
    turns_.wait();
    hold_registers(scores);
    hold_registers(out);
    wgmma_fence();
    issue_scores<Shape>(scores, own_queries(queries), shared_address(shared_.keys[keys_.stage]));
    wgmma_commit();
    issue_sum<Shape, kHeadDim>(out, probabilities, shared_address(shared_.values[values_.stage]));
    wgmma_commit();
    turns_.pass();
    wgmma_wait<1>();
    hold_registers(scores);
    release_keys();
    const Rescale rescale = finish_scores(state, scores, queries);
    hold_registers(scores);
    finish_sum(out, state);
    return rescale;
  }

  /// Waits for the sum, once the next values are there and the exponentials are done, which belong under the product:
  /// the assembler would move them behind this wait, were not `state`, which depends on them, part of the other one.
  __device__ void finish_sum(float (&out)[kHeadDim / 2], const Softmax& state) {
    const bool never = state.sum[0] + state.sum[1] < 0;
    PipelineState<Shape::kValueStages> next = values_;
    next.advance();
    barrier_wait(shared_address(&shared_.values_full[next.stage]), next.full_parity() ^ (never ? 1u : 0u));
    wgmma_wait<0>();
    hold_registers(out);
    release_values();
  }

  __device__ bool needs_mask(const Work& work) const {
    if constexpr (Shape::kIsPart) {
      return work.walk.run(tile_).band.rows_need_mask(work.first + 64 * warpgroup_, 64, work.walk.tile(tile_));
    } else {
      return tile_ < unmasked_.begin || tile_ >= unmasked_.end;
    }
  }

  __device__ Rescale finish_scores(Softmax& state, float (&scores)[Shape::kScores],
                                   const WorkState<Shape>& queries) const {
    const Work& work = shared_.work[queries.place()];
    if (needs_mask(work)) {
      mask_scores(scores, work.walk.run(tile_).band, work.first + warp_row(), work.walk.tile(tile_) * Shape::kKeys);
    }
    return softmax_step<typename Shape::Element>(state, scores, scale_log2_);
  }

  __device__ int warp_row() const {
    return warpgroup_ * 64 + static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpSize * 16;
  }

  /// The softmax of 8-bit floats saw neither what scores are multiplied by nor how large probabilities should be, and
  /// their sum not what values are multiplied by.
  __device__ void finish_rows(RowFactors& factors, const Softmax& state, int64_t stats, int rows) const {
    if constexpr (Shape::kIsFp8) {
      constexpr float kOne = 1.0f / (1 << op::kFp8ProbabilityBits);
      Softmax scaled = state;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        scaled.maximum[half] *= operand_scale_ * operand_scale_;
        scaled.sum[half] *= kOne;
      }
      finish_softmax<false>(factors, arguments_, scaled, stats, warp_row(), rows);
#pragma unroll
      for (float& factor : factors.factor) factor *= operand_scale_ * kOne;
    } else {
      finish_softmax<Shape::kIsPart>(factors, arguments_, state, stats, warp_row(), rows);
    }
  }

  __device__ void write(const Softmax& state, const float (&out)[kHeadDim / 2]) const {
    const Work& work = shared_.work[queries_.place()];
    const auto& at = work.at;
    const int64_t stats = arguments_.stats.start(work.head, at.document, at.begin) + work.first + warp_row();
    RowFactors factors;
    finish_rows(factors, state, stats, work.rows);
    const int64_t stride = arguments_.out_stride();
    const int64_t first = (at.begin + work.first + warp_row()) * stride + work.head * kHeadDim;
    if constexpr (Shape::kIsPart) {
      const int lane = unknown_value(static_cast<int>(threadIdx.x) % kWarpSize);
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; i += 2) {
        if (!factors.writes[i / 2 % 2]) continue;
        store_pair(arguments_.merged + first + accumulator_row(0, lane, i) * stride + accumulator_column(lane, i),
                   out[i], out[i + 1], factors, i / 2 % 2);
      }
    } else {
      if (arguments_.abs_max != nullptr) {
        raise_abs_max_of<bf16>(arguments_.abs_max, largest_magnitude(out, factors.factor, work.rows - warp_row()));
      }
      bf16* const destination = static_cast<bf16*>(arguments_.out) + first;
      if constexpr (Shape::kHandsBackEarly) {
        store_accumulators<kHeadDim>(destination, stride, work.rows - warp_row(), out, factors.factor);
      } else {
        store_accumulators<Shape::kQueries, kHeadDim, Shape::kRowBytes>(
            destination, stride, work.rows - warp_row(), out, factors.factor,
            reinterpret_cast<unsigned char*>(shared_.queries[queries_.tile()]) + warp_row() * Shape::kRowBytes);
      }
    }
  }

  ForwardShared<kHeadDim, kForm>& shared_;
  const AttentionArguments& arguments_;
  float operand_scale_;
  int warpgroup_;
  float scale_log2_;
  Turns<Shape::kWarpgroups> turns_;
  PipelineState<Shape::kKeyStages> keys_;
  PipelineState<Shape::kValueStages> values_;
  WorkState<Shape> queries_;
  int tile_ = 0;    ///< key tile whose scores are at hand
  int begin_ = 0;   ///< of the walk
  int unseen_ = 0;  ///< tiles at its end that the warpgroup does not see
  TileRange unmasked_;
};

template <int kHeadDim, ForwardForm kForm>
__device__ void init_barriers(ForwardShared<kHeadDim, kForm>& shared) {
  using Shape = ForwardShape<kHeadDim, kForm>;
  for (int i = 0; i < shared.kQueryBarriers; ++i) {
    barrier_init(shared_address(&shared.queries_full[i]), 1);
    barrier_init(shared_address(&shared.queries_empty[i]), Shape::kQueryArrivals);
  }
  for (int stage = 0; stage < Shape::kKeyStages; ++stage) {
    barrier_init(shared_address(&shared.keys_full[stage]), 1);
    barrier_init(shared_address(&shared.keys_empty[stage]), Shape::kArrivals);
  }
  for (int stage = 0; stage < Shape::kValueStages; ++stage) {
    barrier_init(shared_address(&shared.values_full[stage]), 1);
    barrier_init(shared_address(&shared.values_empty[stage]), Shape::kArrivals);
  }
  if constexpr (Shape::kIsRotated) {
    constexpr int kArrivals = kWarpgroupThreads / kWarpSize * kWarpArrivals;
    for (uint64_t& barrier : shared.rotated.keys) barrier_init(shared_address(&barrier), kArrivals);
  }
  barrier_init_fence();
}

template <int kHeadDim, ForwardForm kForm>
__device__ void attention_forward_block(const AttentionArguments& arguments, const ForwardGrid& grid,
                                        const ForwardOperands& operands) {
  using Shape = ForwardShape<kHeadDim, kForm>;
  auto& shared = align_shared<ForwardShared<kHeadDim, kForm>>(launched_shared());
  if (threadIdx.x == 0) init_barriers(shared);
  __syncthreads();
  const int role = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpgroupThreads, 0);
  if (role == 0) {
    give_registers<Shape::kProducerRegisters>();
    if (threadIdx.x / kWarpSize == 0) produce_keys<kHeadDim, kForm>(shared, arguments, grid, operands);
    if (threadIdx.x == kWarpSize) produce_values<kHeadDim, kForm>(shared, arguments, operands);
  } else {
    if constexpr (Shape::kIsRotated) {
      if (role > Shape::kWarpgroups) {
        give_registers<Shape::kRotatorRegisters>();
        return visit_angles(arguments.angles, [&](auto tag) {
          rotate_tiles<kHeadDim, kForm, typename decltype(tag)::type>(shared, arguments);
        });
      }
    }
    take_registers<Shape::kConsumerRegisters>();
    ForwardConsumer<kHeadDim, kForm>(shared, arguments, operands).run();
  }
}

}  // namespace litespark::cuda
