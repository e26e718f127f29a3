// SPDX-License-Identifier: Apache-2.0
// Estimates say that they are estimates, and grow with what they stand for.
#include <gtest/gtest.h>

#include "plan/estimated_sizes.h"

namespace litespark {
namespace {

TEST(EstimatedSizes, AreMarkedAsEstimates) {
  EXPECT_FALSE(EstimatedGpuSizes().exact());
}

TEST(EstimatedSizes, GpusReadWeightsAsTheyAre) {
  const EstimatedGpuSizes sizes;
  EXPECT_FALSE(sizes.packs_weights(DType::kBF16));
  EXPECT_EQ(sizes.packed_bytes({.in_features = 3, .out_features = 5, .compute = DType::kBF16}, op::PackForm::kForward),
            30);
}

TEST(EstimatedSizes, EveryMatmulGetsAWorkspace) {
  const EstimatedGpuSizes sizes;
  const LinearShape shape{.rows = 8, .in_features = 16, .out_features = 16, .compute = DType::kBF16};
  EXPECT_EQ(sizes.matmul_forward_scratch_bytes(shape), int64_t{32} << 20);
  EXPECT_EQ(sizes.matmul_backward_input_scratch_bytes(shape), int64_t{32} << 20);
  EXPECT_EQ(sizes.matmul_backward_weight_scratch_bytes(shape), int64_t{32} << 20);
}

TEST(EstimatedSizes, AttentionsBackwardKeepsFp32SumsAndOneNumberARow) {
  const EstimatedGpuSizes sizes;
  op::AttentionShape shape;
  shape.num_heads = 4;
  shape.head_dim = 64;
  EXPECT_EQ(sizes.attention_forward_scratch_bytes(shape, 100, DType::kBF16), 0);
  EXPECT_EQ(sizes.attention_backward_scratch_bytes(shape, 100, DType::kBF16), 100 * 4 * 65 * 4);
}

}  // namespace
}  // namespace litespark
