// SPDX-License-Identifier: Apache-2.0
// Launch shapes of the kernels that give a team of threads one row. Pure functions of the shape.
#pragma once

#include <cstdint>

namespace litespark::cuda {

/// `threads` per row (a multiple of 32), `rows` per block (more than one only when a row is one warp's work).
struct RowTeam {
  int threads = 32;
  int rows = 1;
};

/// Smallest multiple of a warp that gives each thread at most `held` of `vectors`.
constexpr int threads_for(int64_t vectors, int held) {
  const int64_t threads = (vectors + held - 1) / held;
  const int64_t whole_warps = (threads + 31) / 32 * 32;
  return static_cast<int>(whole_warps < 32 ? 32 : whole_warps);
}

/// Vectors that one thread of a row kernel keeps in registers between its two passes.
inline constexpr int kHeldVectors = 4;
/// Largest team of the held-row kernels.
inline constexpr int kMaxTeamThreads = 512;

/// Whether a row of `columns` fits the held-row kernels: whole 8-element vectors, at most kHeldVectors a thread.
constexpr bool row_is_held(int64_t columns) {
  return columns % 8 == 0 && columns <= int64_t{8} * kHeldVectors * kMaxTeamThreads;
}

/// One warp a row up to 1,024 columns (four rows a block), else one block a row.
constexpr RowTeam held_row_team(int64_t columns) {
  const int threads = threads_for(columns / 8, kHeldVectors);
  return {.threads = threads, .rows = threads == 32 ? 4 : 1};
}

/// How elementwise kernels cut a row: `chunks` blocks of `threads`, each thread kChunkVectors accesses of `width`
/// elements.
struct RowChunks {
  int width = 1;
  int threads = 32;
  int chunks = 1;
};
inline constexpr int kChunkVectors = 2;
inline constexpr int kChunkThreads = 256;

constexpr RowChunks row_chunks(int64_t columns) {
  const int width = columns % 8 == 0 ? 8 : 1;
  const int64_t vectors = columns / width;
  const int threads = threads_for(vectors, kChunkVectors);
  if (threads <= kChunkThreads) return {.width = width, .threads = threads, .chunks = 1};
  // As few blocks as the largest take, all about as large: 536 vectors are 2 x 268, not 512 + 24.
  const int64_t per_block = int64_t{kChunkThreads} * kChunkVectors;
  const int64_t chunks = (vectors + per_block - 1) / per_block;
  return {.width = width,
          .threads = threads_for((vectors + chunks - 1) / chunks, kChunkVectors),
          .chunks = static_cast<int>(chunks)};
}

/// Shape of the RMSNorm backward kernel: vectors a thread owns and rows that are in flight together. More rows where
/// rows are short, so that a multiprocessor always has some 64 KB under way.
struct RmsNormBackwardShape {
  int vectors = 0;  ///< 0: the row does not fit, take the general kernels
  int rows = 0;     ///< of a bf16 stream; an f32 stream takes half as many, at least one
  int threads = 0;  ///< of a team, which has `rows` rows under way
  int teams = 1;    ///< a block, side by side on different rows
};

/// Blocks are few, one for every 64 rows, since each leaves a partial row of the weight gradient: 8,192 rows are 128.
/// So they are made of several teams until there are kWantedTeams, about two for every multiprocessor of an H200.
inline constexpr int64_t kWantedTeams = 256;
/// Shared memory that every GPU since sm_80 gives a block.
inline constexpr int64_t kTeamSharedBytes = int64_t{96} << 10;

constexpr bool teams_fit(const RmsNormBackwardShape& shape) {
  // Two stages of bf16 rows of dy, x and dresidual, 16 bytes a vector.
  const int64_t staged_bytes = int64_t{2} * 3 * 16 * shape.rows * shape.vectors * shape.threads * shape.teams;
  return shape.threads * shape.teams <= kMaxTeamThreads && staged_bytes <= kTeamSharedBytes;
}

constexpr RmsNormBackwardShape rms_norm_backward_shape(int64_t columns, int64_t blocks) {
  if (columns % 8 != 0 || columns > 8192) return {};
  const int64_t vectors = columns / 8;
  RmsNormBackwardShape shape{.vectors = 1, .rows = vectors <= 128 ? 4 : 2, .threads = threads_for(vectors, 1)};
  if (vectors > 512) shape = {.vectors = 2, .rows = 1, .threads = threads_for(vectors, 2)};
  while (blocks * shape.teams < kWantedTeams) {
    RmsNormBackwardShape more = shape;
    more.teams *= 2;
    if (!teams_fit(more)) break;
    shape = more;
  }
  return shape;
}

/// Whether the RMSNorm backward copies the next rows ahead into shared memory. With a stream of 2-byte elements that
/// hides the barrier of each step. With 4-byte elements two stages leave room for one block a multiprocessor where
/// registers leave room for two, and cost more than they hide (both measured on an H200).
constexpr bool norm_backward_is_staged(int64_t stream_element_bytes) {
  return stream_element_bytes == 2;
}

}  // namespace litespark::cuda
