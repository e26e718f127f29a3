// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy with rows that pass through shared memory: each logit is read once and written once.
//
// A multiprocessor has one block, or one block of a cluster that shares a row too long for it. One thread copies the
// block's part of its rows, one row after another, into a ring of stages; 512 threads fold a row into its (max, sum)
// as it arrives, and turn it into its gradient on the way out, which frees its stages. The ring is longer than what is
// at work by four stages or more: 64 KB, more than latency times bandwidth of a multiprocessor (32 KB), are on their
// way while threads wait for each other. With a block a row instead, nothing is on its way between a row's last logit
// and its first gradient.
//
// Two exponentials a logit take 70 % of the time that its bytes take, at the clock of a long run of matmuls, so what
// threads wait for each other counts where rows are short: then two groups of them are at work on a row each.
//
// Traffic a logit in bf16: 2 bytes read, 2 written; shared memory 2 written, 4 read.
#pragma once

#include <cstdint>

#include "core/op/loss.h"
#include "ops/cuda/device/cluster.cuh"
#include "ops/cuda/device/hopper_tile.cuh"
#include "ops/cuda/device/online_softmax.cuh"
#include "ops/cuda/device/tma.cuh"
#include "ops/cuda/heuristics/loss.h"
#include "ops/cuda/loss.h"

namespace litespark::cuda {

inline constexpr int kRowReaders = 512;
/// Readers, and the warp of the thread that copies.
inline constexpr int kRowThreads = kRowReaders + kWarpSize;
inline constexpr int kRowVectorBytes = 16;
inline constexpr int kRowStageVectors = kRowStageBytes / kRowVectorBytes;

/// What a group of readers tells each other. Sums alternate between two places, so that those of a row are still there
/// while the next ones come.
struct RowSums {
  uint64_t full[2];
  OnlineSum warps[2][kRowReaders / kWarpSize];
  OnlineSum blocks[2][kMaxLossBlocks];
};

/// Shared memory.
struct RowRing {
  alignas(128) unsigned char stages[kRowStages][kRowStageBytes];
  uint64_t full[kRowStages], empty[kRowStages];
  RowSums sums[kMaxRowGroups];
};

/// Readers that work on a row together; one group or two take rows in turn.
template <int kGroups>
struct RowGroup {
  static constexpr int kThreads = kRowReaders / kGroups;
  static constexpr int kWarps = kThreads / kWarpSize;
  int number = 0;
  int thread = 0;  ///< in the group

  __device__ RowGroup()
      : number(static_cast<int>(threadIdx.x) / kThreads), thread(static_cast<int>(threadIdx.x) % kThreads) {}
  __device__ void meet() const { named_barrier_wait<kThreads>(1 + number); }
};

/// The vectors of each row that this block has.
struct RowPart {
  int first = 0;
  int end = 0;
};

/// One thread block's place among the rows.
template <class T>
class LossRows {
 public:
  static constexpr int kWidth = kRowVectorBytes / static_cast<int>(sizeof(T));

  __device__ explicit LossRows(const CrossEntropyArgs<T>& args) : args_(args) {
    const int vectors = args.columns / kWidth;
    const int per_block = loss_vectors_per_block(vectors, static_cast<int>(cluster_blocks()));
    part_.first = min(static_cast<int>(cluster_rank()) * per_block, vectors);
    part_.end = min(part_.first + per_block, vectors);
  }

  __device__ RowPart part() const { return part_; }
  /// Stages that a row takes.
  __device__ int stages() const { return (part_.end - part_.first + kRowStageVectors - 1) / kRowStageVectors; }
  __device__ T* logits(int64_t row, int vector) const { return args_.logits + row * args_.columns + vector * kWidth; }
  __device__ bool is_scored(int label) const { return label >= 0 && label < args_.columns; }
  /// Else nobody asks what the logits are.
  __device__ bool is_read(int label) const { return is_scored(label) || args_.log_sum_exp != nullptr; }
  /// Whether this block has the label's column.
  __device__ bool has(int label) const { return label / kWidth >= part_.first && label / kWidth < part_.end; }

  /// Calls body(row, label) for each row of this block's cluster, in order. The next label is on its way meanwhile.
  template <class Body>
  __device__ void for_each(Body&& body) const {
    int64_t row = cluster_number();
    int next = row < args_.rows ? args_.labels[row] : 0;
    for (; row < args_.rows; row += num_clusters()) {
      const int label = next;
      if (row + num_clusters() < args_.rows) next = args_.labels[row + num_clusters()];
      body(row, label);
    }
  }

 private:
  const CrossEntropyArgs<T>& args_;
  RowPart part_;
};

template <int kGroups>
__device__ void init_row_ring(RowRing& ring) {
  for (int stage = 0; stage < kRowStages; ++stage) {
    barrier_init(shared_address(&ring.full[stage]), 1);
    barrier_init(shared_address(&ring.empty[stage]), RowGroup<kGroups>::kWarps * kWarpArrivals);
  }
  for (RowSums& sums : ring.sums) {
    for (uint64_t& barrier : sums.full) barrier_init(shared_address(&barrier), 1);
  }
  barrier_init_fence();
}

/// One thread: keeps the ring full.
template <class T>
__device__ void copy_loss_rows(RowRing& ring, const LossRows<T>& rows) {
  PipelineState<kRowStages> state;
  rows.for_each([&](int64_t row, int label) {
    if (!rows.is_read(label)) return;
    for (int vector = rows.part().first; vector < rows.part().end; vector += kRowStageVectors) {
      const auto bytes = static_cast<uint32_t>(min(kRowStageVectors, rows.part().end - vector) * kRowVectorBytes);
      const uint32_t full = shared_address(&ring.full[state.stage]);
      barrier_wait(shared_address(&ring.empty[state.stage]), state.empty_parity());
      barrier_expect(full, bytes);
      load_bytes(shared_address(ring.stages[state.stage]), rows.logits(row, vector), bytes, full);
      state.advance();
    }
  });
}

/// Merges the sums of a group, and those of the same group of the cluster's blocks, in an order that depends on their
/// numbers alone: all agree on every bit. `count`: sums that came before.
template <class T, int kGroups>
__device__ OnlineSum merge_row(RowSums& sums, const RowGroup<kGroups>& group, OnlineSum sum, uint32_t count) {
  const uint32_t place = count % 2;
  sum = merge_warps<T>(sum, sums.warps[place], {.warp = group.thread / kWarpSize, .count = RowGroup<kGroups>::kWarps},
                       [&] { group.meet(); });
  const uint32_t blocks = cluster_blocks();
  if (blocks == 1) return sum;
  const uint32_t full = shared_address(&sums.full[place]);
  const auto thread = static_cast<uint32_t>(group.thread);
  if (thread == 0) barrier_expect(full, blocks * static_cast<uint32_t>(sizeof(OnlineSum)));
  if (thread < blocks) {
    send_to_block(shared_address(&sums.blocks[place][cluster_rank()]), thread, sum.max, sum.sum, full);
  }
  cluster_barrier_wait(full, count / 2 % 2);
  OnlineSum total = sums.blocks[place][0];
  for (uint32_t b = 1; b < blocks; ++b) total = merge<T>(total, sums.blocks[place][b]);
  return total;
}

/// The readers: losses, and gradients in place of the logits.
template <class T, int kGroups>
__device__ void reduce_loss_rows(RowRing& ring, const LossRows<T>& rows, const CrossEntropyArgs<T>& args) {
  using Group = RowGroup<kGroups>;
  constexpr int kWidth = LossRows<T>::kWidth;
  constexpr int kHeld = kRowStageVectors / Group::kThreads;
  using Vector = Pack<T, kWidth>;
  const Group group;
  const RowPart part = rows.part();
  RowSums& sums = ring.sums[group.number];
  const bool reports = group.thread == 0 && cluster_rank() == 0;
  PipelineState<kRowStages> state;
  uint32_t count = 0;
  int turn = 0;
  // Calls body(vector of the row, pack) for this thread's vectors of a stage; two are read before the first call.
  const auto for_each_vector = [&](int stage, int first, auto&& body) {
    const auto* held = reinterpret_cast<const Vector*>(ring.stages[stage]) + group.thread;
#pragma unroll
    for (int h = 0; h < kHeld; h += 2) {
      const int near = first + h * Group::kThreads + group.thread;
      const int far = near + Group::kThreads;
      Vector packs[2];
      if (near < part.end) packs[0] = held[h * Group::kThreads];
      if (far < part.end) packs[1] = held[(h + 1) * Group::kThreads];
      if (near < part.end) body(near, packs[0]);
      if (far < part.end) body(far, packs[1]);
    }
  };

  rows.for_each([&](int64_t row, int label) {
    const bool is_own = turn == group.number;
    turn = turn + 1 == kGroups ? 0 : turn + 1;
    const bool is_read = rows.is_read(label);
    if (!is_own) {
      for (int stage = 0; is_read && stage < rows.stages(); ++stage) state.advance();
      return;
    }
    const bool is_scored = rows.is_scored(label);
    if (reports && !is_scored) {
      args.losses[row] = 0;
      if (label != op::kIgnoredLabel) count_bad_token(args.state);
    }
    const float zeros[kWidth] = {};
    if (!is_read) {
      if (!args.write_gradient) return;
      for (int vector = part.first + group.thread; vector < part.end; vector += Group::kThreads) {
        store_floats(rows.logits(row, vector), zeros);
      }
      return;
    }
    PipelineState<kRowStages> read_state = state;
    OnlineSum sum;
    for (int first = part.first; first < part.end; first += kRowStageVectors, read_state.advance()) {
      barrier_wait(shared_address(&ring.full[read_state.stage]), read_state.full_parity());
      for_each_vector(read_state.stage, first, [&](int, const Vector& pack) { sum = fold<T>(sum, pack); });
    }
    const OnlineSum total = merge_row<T>(sums, group, sum, count++);
    const float log_sum_exp = log_of<T>(total);
    if (reports && args.log_sum_exp != nullptr) args.log_sum_exp[row] = log_sum_exp;
    if (group.thread == 0 && is_scored && rows.has(label)) {
      const int place = label - part.first * kWidth;
      constexpr int kStageElements = kRowStageVectors * kWidth;
      const auto* stage = reinterpret_cast<const T*>(ring.stages[(state.stage + place / kStageElements) % kRowStages]);
      args.losses[row] = log_sum_exp - as_float(stage[place % kStageElements]);
    }
    const RowGradient<T> gradient(total, log_sum_exp, args.z_coefficient);
    for (int first = part.first; first < part.end; first += kRowStageVectors, state.advance()) {
      if (args.write_gradient) {
        for_each_vector(state.stage, first, [&](int vector, const Vector& pack) {
          float values[kWidth] = {};
          if (is_scored) gradient.of(pack, vector * kWidth, label, values);
          store_floats(rows.logits(row, vector), values);
        });
      }
      release(&ring.empty[state.stage]);
    }
  });
}

template <class T, int kGroups>
__device__ void loss_rows_block(RowRing& ring, const CrossEntropyArgs<T>& args) {
  if (threadIdx.x == 0) init_row_ring<kGroups>(ring);
  __syncthreads();
  cluster_arrive();  // nobody sends sums to a block without barriers
  cluster_wait();
  const LossRows<T> rows(args);
  if (threadIdx.x < kRowReaders) {
    reduce_loss_rows<T, kGroups>(ring, rows, args);
  } else if (threadIdx.x == kRowReaders) {
    copy_loss_rows(ring, rows);
  }
  __syncwarp();
  cluster_arrive();  // nor to one that is gone
  cluster_wait();
}

}  // namespace litespark::cuda
