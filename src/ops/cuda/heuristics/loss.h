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

/// Vectors of 16 bytes that a thread of the cluster kernel keeps in registers.
inline constexpr int kClusterHeldVectors = 8;
/// What every device with clusters takes.
inline constexpr int kMaxClusterBlocks = 8;

/// How a row is divided among the blocks of a cluster; `blocks` 0: not at all, the row is too short, too long or not
/// made of whole vectors.
struct LossCluster {
  int blocks = 0;
  int threads = 0;
};

/// The fewest blocks of 256 threads that hold the row in registers, else of 512. Small blocks, so that several rows
/// share a multiprocessor and the reads of one overlap with the writes of another.
constexpr LossCluster cross_entropy_cluster(const CrossEntropyRow& row) {
  if (row.width == 1) return {};
  const int64_t vectors = row.columns / row.width;
  for (const int threads : {256, 512}) {
    for (int blocks = 1; blocks <= kMaxClusterBlocks; blocks *= 2) {
      if (int64_t{blocks} * threads * kClusterHeldVectors < vectors) continue;
      return blocks == 1 ? LossCluster{} : LossCluster{.blocks = blocks, .threads = threads};
    }
  }
  return {};
}

}  // namespace litespark::cuda
