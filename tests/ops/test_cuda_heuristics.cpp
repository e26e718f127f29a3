// SPDX-License-Identifier: Apache-2.0
// Launch shapes of the streaming CUDA kernels: pure functions, checked for every width without a GPU.
#include <gtest/gtest.h>

#include "ops/cuda/heuristics/embedding.h"
#include "ops/cuda/heuristics/loss.h"
#include "ops/cuda/heuristics/rows.h"

namespace litespark::cuda {
namespace {

/// Bytes a block may have.
constexpr int64_t kHopperShared = 232448;

TEST(CudaHeuristics, AHeldRowFitsItsTeam) {
  for (int64_t columns = 1; columns <= 20000; ++columns) {
    if (!row_is_held(columns)) continue;
    const RowTeam team = held_row_team(columns);
    ASSERT_EQ(team.threads % 32, 0) << columns;
    ASSERT_LE(team.threads, kMaxTeamThreads) << columns;
    ASSERT_GE(int64_t{team.threads} * kHeldVectors * 8, columns) << columns;
    ASSERT_TRUE(team.rows == 1 || team.threads == 32) << "several rows a block only without a block barrier";
  }
  EXPECT_TRUE(row_is_held(16384));
  EXPECT_FALSE(row_is_held(16392));
  EXPECT_FALSE(row_is_held(3073));
}

TEST(CudaHeuristics, ChunksCoverARowOnce) {
  for (int64_t columns = 1; columns <= 20000; ++columns) {
    const RowChunks chunks = row_chunks(columns);
    const int64_t covered = int64_t{chunks.chunks} * chunks.threads * kChunkVectors * chunks.width;
    ASSERT_GE(covered, columns);
    ASSERT_LT(covered - int64_t{chunks.threads} * kChunkVectors * chunks.width, columns) << "an empty chunk";
    ASSERT_EQ(columns % chunks.width, 0);
    ASSERT_LE(chunks.threads, kChunkThreads);
  }
  EXPECT_EQ(row_chunks(4288).chunks, 2);
  EXPECT_EQ(row_chunks(4288).threads, 160) << "536 vectors of eight, evenly";
}

TEST(CudaHeuristics, NormBackwardShapesCoverTheRowWithinTheDevicesLimits) {
  for (const int64_t shared_bytes : {kHopperShared, int64_t{166912}, int64_t{101376}}) {  // then sm_80 and sm_89
    for (const int64_t row_bytes : {48, 80, 96}) {
      for (int64_t columns = 8; columns <= 8192; columns += 8) {
        const RmsNormBackwardShape shape = rms_norm_backward_shape({.columns = columns,
                                                                    .max_blocks = 300,
                                                                    .row_bytes_of_thread = row_bytes,
                                                                    .shared_bytes = shared_bytes,
                                                                    .num_multiprocessors = 132});
        ASSERT_GE(shape.teams, 1) << columns;
        ASSERT_LE(shape.teams, kNormMaxTeams);
        ASSERT_GE(int64_t{shape.threads} * 8, columns);
        ASSERT_LE(shape.threads * shape.teams, kNormMaxThreads);
        ASSERT_LE(shape.shared_bytes + kNormReservedBytes, shared_bytes);
        ASSERT_EQ(shape.shared_bytes, shape.stages * row_bytes * shape.threads * shape.teams);
        ASSERT_TRUE(shape.stages == 2 || 2 * row_bytes * shape.threads > shared_bytes - kNormReservedBytes);
        ASSERT_EQ(shape.blocks, 132);
      }
    }
  }
  RmsNormBackwardRequest request{.columns = 3072,
                                 .max_blocks = 100,
                                 .row_bytes_of_thread = 48,
                                 .shared_bytes = 232448,
                                 .num_multiprocessors = 132};
  EXPECT_EQ(rms_norm_backward_shape(request).teams, 2);
  EXPECT_EQ(rms_norm_backward_shape(request).blocks, 100) << "each leaves a partial row";
  for (const int64_t columns : {8200, 100}) {
    request.columns = columns;
    EXPECT_EQ(rms_norm_backward_shape(request).teams, 0) << columns;
  }
}

TEST(CudaHeuristics, CrossEntropyHoldsWhatFits) {
  const CrossEntropyShape llama3 =
      cross_entropy_shape({.columns = 128256, .width = 8, .element_bytes = 2, .shared_bytes = kHopperShared});
  EXPECT_EQ(llama3.threads, 1024);
  EXPECT_EQ(llama3.held_vectors, 14) << "of 15.7 vectors a thread";
  for (const int64_t columns : {1, 8, 1000, 32000, 50257, 128256, 1000000}) {
    for (const int64_t element_bytes : {2, 4}) {
      const int width = columns % 8 == 0 ? static_cast<int>(16 / element_bytes) : 1;
      const CrossEntropyShape shape = cross_entropy_shape(
          {.columns = columns, .width = width, .element_bytes = element_bytes, .shared_bytes = kHopperShared});
      EXPECT_LE(shape.shared_bytes + kLossReservedBytes, kHopperShared);
      EXPECT_EQ(shape.shared_bytes, shape.held_vectors * shape.threads * width * element_bytes);
      EXPECT_LE(int64_t{shape.held_vectors - 1} * shape.threads * width, columns) << "no slot that nothing fills";
      EXPECT_LE(shape.threads, kLossMaxThreads);
    }
  }
}

TEST(CudaHeuristics, ARowLeavesStagesOfItsRingForTheNext) {
  const auto ring_of = [](int64_t columns, int width, int64_t shared_bytes = kHopperShared) {
    return loss_ring_of_row(
        {.columns = columns, .width = width, .element_bytes = 16 / width, .shared_bytes = shared_bytes});
  };
  for (int64_t columns = 8; columns <= 1000000; columns += 1000) {
    for (const int width : {4, 8}) {
      const LossRing ring = ring_of(columns, width);
      if (ring.blocks == 0) continue;
      ASSERT_LE(ring.blocks, kMaxLossBlocks);
      const auto vectors = static_cast<int>(columns / width);
      const int part = loss_vectors_per_block(vectors, ring.blocks);
      ASSERT_GE(int64_t{part} * ring.blocks, vectors);
      ASSERT_LE(part * 16 * ring.groups, (kRowStages - kRowStagesAhead) * kRowStageBytes) << columns;
    }
  }
  EXPECT_EQ(ring_of(32000, 8).blocks, 1);
  EXPECT_EQ(ring_of(32000, 8).groups, 2);
  EXPECT_EQ(ring_of(50304, 8).groups, 1);
  EXPECT_EQ(ring_of(128256, 8).blocks, 2);
  EXPECT_EQ(ring_of(128256, 4).blocks, 4);
  EXPECT_EQ(ring_of(8000, 8).blocks, 0) << "too short";
  EXPECT_EQ(ring_of(2000000, 8).blocks, 0) << "too long";
  EXPECT_EQ(ring_of(128256, 8, 101376).blocks, 0) << "no room for the ring";
  EXPECT_EQ(loss_ring_of_row({.columns = 50257, .width = 1, .shared_bytes = kHopperShared}).blocks, 0);
}

TEST(CudaHeuristics, TheEmbeddingGradientsGridCoversItsWork) {
  for (const int64_t tokens : {1, 7, 8, 191, 192, 193, 16384}) {
    for (const int64_t columns : {1, 264, 1600, 3072}) {
      const int width = columns % 8 == 0 ? 8 : 1;
      for (const bool accumulate : {false, true}) {
        const EmbeddingGradientGrid grid = embedding_gradient_grid(
            {.tokens = tokens, .vocab = 1000, .columns = columns, .width = width, .accumulate = accumulate});
        EXPECT_GE(int64_t{grid.slices} * 32 * width, columns);
        EXPECT_LT(int64_t{grid.slices - 1} * 32 * width, columns);
        EXPECT_GE(grid.long_blocks / grid.slices * kLongCandidates * kShortRun, tokens);
        EXPECT_GE(grid.short_blocks * kGradientWarps * kRunTile, tokens * grid.slices);
        EXPECT_GE(grid.clearing_blocks * kGradientWarps * kClearedRows, accumulate ? 0 : 1000);
        EXPECT_EQ(grid.blocks(), grid.long_blocks + grid.short_blocks + grid.clearing_blocks);
      }
    }
  }
}

}  // namespace
}  // namespace litespark::cuda
