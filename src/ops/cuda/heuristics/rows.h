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

/// Threads of a block of the RMSNorm backward kernel, its only one on a multiprocessor: what is wanted, and what
/// registers allow. A team that shares it with no other has nothing to do while its threads wait for each other.
inline constexpr int kNormThreads = 768;
inline constexpr int kNormMaxThreads = 1024;
/// Barriers of a block that teams can have: 16, of which one is everybody's.
inline constexpr int kNormMaxTeams = 15;
/// What the kernel takes of shared memory beside the stages.
inline constexpr int64_t kNormReservedBytes = 2048;

struct RmsNormBackwardRequest {
  int64_t columns = 0;
  int64_t max_blocks = 0;           ///< partial rows of the weight gradient that there is room for
  int64_t row_bytes_of_thread = 0;  ///< what a thread copies ahead of one row
  int64_t shared_bytes = 0;         ///< a block's limit on this device
  int num_multiprocessors = 0;
};

/// Shape of the RMSNorm backward kernel. A block stays on its multiprocessor with an even share of the rows; its teams
/// work side by side on different rows.
struct RmsNormBackwardShape {
  int threads = 0;  ///< of a team, eight columns each
  int teams = 0;    ///< 0: the row does not fit, take the general kernels
  int stages = 0;   ///< rows of a team that are on their way or in use: 2, or 1 where there is no room for 2
  int shared_bytes = 0;
  int64_t blocks = 0;
};

constexpr RmsNormBackwardShape rms_norm_backward_shape(const RmsNormBackwardRequest& request) {
  const int64_t vectors = request.columns / 8;
  if (request.columns % 8 != 0 || vectors > kNormMaxThreads) return {};
  RmsNormBackwardShape shape{.threads = threads_for(vectors, 1)};
  const int64_t room = request.shared_bytes - kNormReservedBytes;
  const int64_t fitting_teams = room / (request.row_bytes_of_thread * shape.threads);
  if (fitting_teams == 0) return {};
  shape.stages = fitting_teams >= 2 ? 2 : 1;
  int64_t teams = kNormThreads / shape.threads;
  if (teams < 2) teams = kNormMaxThreads / shape.threads;
  if (teams > kNormMaxTeams) teams = kNormMaxTeams;
  if (teams > fitting_teams / shape.stages) teams = fitting_teams / shape.stages;
  shape.teams = static_cast<int>(teams);
  // The teams' weight gradients meet where the rows were: 32 bytes a thread, fewer than a stage.
  shape.shared_bytes = static_cast<int>(shape.stages * request.row_bytes_of_thread * shape.threads * teams);
  shape.blocks = request.num_multiprocessors < request.max_blocks ? request.num_multiprocessors : request.max_blocks;
  return shape;
}

}  // namespace litespark::cuda
