// SPDX-License-Identifier: Apache-2.0
// Launch shape of the cross-entropy kernel: threads a row and how much of the row stays in shared memory.
#pragma once

#include <cstdint>

namespace litespark::cuda {

inline constexpr int kLossMaxThreads = 1024;
/// What a block needs of shared memory beside the held vectors, and what the driver takes.
inline constexpr int64_t kLossReservedBytes = 2048;

struct CrossEntropyRow {
  int64_t columns = 0;
  int width = 1;  ///< elements a vector
  int64_t element_bytes = 2;
  int64_t shared_bytes = 0;  ///< a block's limit on this device
};

struct CrossEntropyShape {
  int threads = 0;
  int held_vectors = 0;  ///< a thread, its first ones
  int shared_bytes = 0;
};

/// 1,024 threads where a row is long enough to keep a multiprocessor busy alone (64 KB or more), else 512, so that two
/// or more rows share one and the reads of one overlap with the writes of another; fewer for very short rows.
constexpr CrossEntropyShape cross_entropy_shape(const CrossEntropyRow& row) {
  const int64_t row_bytes = row.columns * row.element_bytes;
  const int64_t vectors = row.columns / row.width;
  CrossEntropyShape shape;
  shape.threads = row_bytes >= 131072 ? 1024 : vectors >= 1024 ? 512 : 128;
  const int64_t slot_bytes = shape.threads * row.width * row.element_bytes;
  const int64_t needed = (vectors + shape.threads - 1) / shape.threads;
  const int64_t available = row.shared_bytes > kLossReservedBytes ? row.shared_bytes - kLossReservedBytes : 0;
  const int64_t fits = available / slot_bytes;
  shape.held_vectors = static_cast<int>(needed < fits ? needed : fits);
  shape.shared_bytes = static_cast<int>(shape.held_vectors * slot_bytes);
  return shape;
}

/// The ring that rows pass through: stages and their size. With the barriers it is what a block of Hopper can have.
inline constexpr int kRowStages = 14;
inline constexpr int kRowStageBytes = 16384;
/// Stages that are more than a row, for the next one to be on its way.
inline constexpr int kRowStagesAhead = 4;
/// What every device with clusters takes.
inline constexpr int kMaxLossBlocks = 8;
/// A stage of a shorter row is mostly empty.
inline constexpr int64_t kMinRingRowBytes = 2 * kRowStageBytes;

/// 16-byte vectors of a row that a block of a cluster has at most; whole lines of 128 bytes.
constexpr int loss_vectors_per_block(int vectors, int blocks) {
  return (vectors + 8 * blocks - 1) / (8 * blocks) * 8;
}

/// How a row passes through the ring. Two groups of readers, who take rows in turn, where two rows leave room.
inline constexpr int kMaxRowGroups = 2;
struct LossRing {
  int blocks = 0;  ///< of a cluster, which share a row; 0: not at all
  int groups = 1;
};

/// The fewest blocks whose parts of a row leave kRowStagesAhead of the ring; none where the row is too short, too long
/// or not made of whole vectors, or the ring is larger than a block's shared memory.
constexpr LossRing loss_ring_of_row(const CrossEntropyRow& row) {
  if (row.width * row.element_bytes != 16 || row.columns * row.element_bytes < kMinRingRowBytes) return {};
  if (row.shared_bytes < kRowStages * kRowStageBytes + kLossReservedBytes) return {};
  const auto vectors = static_cast<int>(row.columns / row.width);
  for (int blocks = 1; blocks <= kMaxLossBlocks; blocks *= 2) {
    const int stages = (loss_vectors_per_block(vectors, blocks) * 16 + kRowStageBytes - 1) / kRowStageBytes;
    if (stages > kRowStages - kRowStagesAhead) continue;
    return {.blocks = blocks, .groups = kMaxRowGroups * stages <= kRowStages - kRowStagesAhead ? kMaxRowGroups : 1};
  }
  return {};
}

}  // namespace litespark::cuda
