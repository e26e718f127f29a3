// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy with rows that pass through shared memory: each logit is read once and written once.
//
// A multiprocessor has one block, or one block of a cluster that shares a row too long for it. One thread copies the
// block's part of its rows, one row after another, into a ring of stages; 512 threads fold a row into its (max, sum)
// as it arrives, and turn it into its gradient on the way out, which frees its stages. The ring is longer than a row by
// four stages or more: 64 KB, more than latency times bandwidth of a multiprocessor (32 KB), are on their way while
// threads wait for each other. With a block a row instead, nothing is on its way between a row's last logit and its
// first gradient.
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
inline constexpr int kRowReaderWarps = kRowReaders / kWarpSize;
/// Readers, and the warp of the thread that copies.
inline constexpr int kRowThreads = kRowReaders + kWarpSize;
inline constexpr int kRowVectorBytes = 16;
inline constexpr int kRowStageVectors = kRowStageBytes / kRowVectorBytes;

/// Shared memory. Sums alternate between two places, so that those of a row are still there while the next ones come.
struct RowRing {
  alignas(128) unsigned char stages[kRowStages][kRowStageBytes];
  uint64_t full[kRowStages], empty[kRowStages];
  uint64_t sums_full[2];
  OnlineSum warp_sums[2][kRowReaderWarps];
  OnlineSum block_sums[2][kMaxLossBlocks];
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

__device__ inline void init_row_ring(RowRing& ring) {
  for (int stage = 0; stage < kRowStages; ++stage) {
    barrier_init(shared_address(&ring.full[stage]), 1);
    barrier_init(shared_address(&ring.empty[stage]), kRowReaderWarps * kWarpArrivals);
  }
  for (uint64_t& barrier : ring.sums_full) barrier_init(shared_address(&barrier), 1);
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

/// Merges the readers' sums, and those of the cluster's blocks, in an order that depends on their numbers alone: all
/// agree on every bit. `count`: sums that came before.
template <class T>
__device__ OnlineSum merge_row(RowRing& ring, OnlineSum sum, uint32_t count) {
  const uint32_t place = count % 2;
  sum = merge_warps<T>(sum, ring.warp_sums[place], kRowReaderWarps, [] { named_barrier<1, kRowReaders>(); });
  const uint32_t blocks = cluster_blocks();
  if (blocks == 1) return sum;
  const uint32_t full = shared_address(&ring.sums_full[place]);
  if (threadIdx.x == 0) barrier_expect(full, blocks * static_cast<uint32_t>(sizeof(OnlineSum)));
  if (threadIdx.x < blocks) {
    send_to_block(shared_address(&ring.block_sums[place][cluster_rank()]), threadIdx.x, sum.max, sum.sum, full);
  }
  cluster_barrier_wait(full, count / 2 % 2);
  OnlineSum total = ring.block_sums[place][0];
  for (uint32_t b = 1; b < blocks; ++b) total = merge<T>(total, ring.block_sums[place][b]);
  return total;
}

/// The readers: losses, and gradients in place of the logits.
template <class T>
__device__ void reduce_loss_rows(RowRing& ring, const LossRows<T>& rows, const CrossEntropyArgs<T>& args) {
  constexpr int kWidth = LossRows<T>::kWidth;
  constexpr int kHeld = kRowStageVectors / kRowReaders;
  using Vector = Pack<T, kWidth>;
  const auto thread = static_cast<int>(threadIdx.x);
  const RowPart part = rows.part();
  PipelineState<kRowStages> state;
  uint32_t count = 0;
  // Calls body(vector of the row, pack) for this thread's vectors of a stage; all are read before the first call.
  const auto for_each_vector = [&](int stage, int first, auto&& body) {
    const auto* held = reinterpret_cast<const Vector*>(ring.stages[stage]) + thread;
    Vector packs[kHeld];
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      if (first + h * kRowReaders + thread < part.end) packs[h] = held[h * kRowReaders];
    }
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const int vector = first + h * kRowReaders + thread;
      if (vector < part.end) body(vector, packs[h]);
    }
  };

  rows.for_each([&](int64_t row, int label) {
    const bool is_scored = rows.is_scored(label);
    if (thread == 0 && cluster_rank() == 0 && !is_scored) {
      args.losses[row] = 0;
      if (label != op::kIgnoredLabel) count_bad_token(args.state);
    }
    const float zeros[kWidth] = {};
    if (!rows.is_read(label)) {
      if (!args.write_gradient) return;
      for (int vector = part.first + thread; vector < part.end; vector += kRowReaders) {
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
    const OnlineSum total = merge_row<T>(ring, sum, count++);
    const float log_sum_exp = log_of<T>(total);
    if (thread == 0) {
      if (cluster_rank() == 0 && args.log_sum_exp != nullptr) args.log_sum_exp[row] = log_sum_exp;
      if (is_scored && rows.has(label)) {
        const int place = label - part.first * kWidth;
        constexpr int kStageElements = kRowStageVectors * kWidth;
        const auto* stage =
            reinterpret_cast<const T*>(ring.stages[(state.stage + place / kStageElements) % kRowStages]);
        args.losses[row] = log_sum_exp - as_float(stage[place % kStageElements]);
      }
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

template <class T>
__device__ void loss_rows_block(RowRing& ring, const CrossEntropyArgs<T>& args) {
  if (threadIdx.x == 0) init_row_ring(ring);
  __syncthreads();
  cluster_arrive();  // nobody sends sums to a block without barriers
  cluster_wait();
  const LossRows<T> rows(args);
  if (threadIdx.x < kRowReaders) {
    reduce_loss_rows(ring, rows, args);
  } else if (threadIdx.x == kRowReaders) {
    copy_loss_rows(ring, rows);
  }
  __syncwarp();
  cluster_arrive();  // nor to one that is gone
  cluster_wait();
}

}  // namespace litespark::cuda
