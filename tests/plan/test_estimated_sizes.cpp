// SPDX-License-Identifier: Apache-2.0
// Estimates say that they are estimates, and grow with what they stand for.
#include <gtest/gtest.h>

#include "plan/estimated_sizes.h"

namespace litespark {
namespace {

TEST(EstimatedSizes, AreMarkedAsEstimates) {
  EXPECT_FALSE(EstimatedGpuSizes(true).exact());
}

TEST(EstimatedSizes, GpusReadWeightsAsTheyAre) {
  const EstimatedGpuSizes sizes(true);
  EXPECT_FALSE(sizes.packs_weights(DType::kBF16));
  EXPECT_EQ(sizes.packed_bytes({.in_features = 3, .out_features = 5, .compute = DType::kBF16}, op::PackForm::kForward),
            30);
}

TEST(EstimatedSizes, EveryMatmulGetsAWorkspace) {
  const EstimatedGpuSizes sizes(true);
  LinearShape shape{.rows = 8, .in_features = 16, .out_features = 16, .compute = DType::kBF16};
  EXPECT_EQ(sizes.matmul_forward_scratch_bytes(shape), int64_t{32} << 20);
  EXPECT_EQ(sizes.matmul_backward_input_scratch_bytes(shape), int64_t{32} << 20);
  EXPECT_EQ(sizes.matmul_backward_weight_scratch_bytes(shape), int64_t{32} << 20);
  shape.has_bias = true;
  EXPECT_EQ(sizes.matmul_forward_scratch_bytes(shape), (int64_t{32} << 20) + 256);
}

op::AttentionShape documents(int count, int length, int heads, int kv_heads, int head_dim) {
  op::AttentionShape shape;
  shape.num_heads = heads;
  shape.num_kv_heads = kv_heads;
  shape.head_dim = head_dim;
  shape.max_documents = count;
  shape.max_length = length;
  shape.uniform = true;
  return shape;
}

/// In MiB.
double backward_mib(bool deterministic, const op::AttentionShape& shape) {
  const int64_t tokens = int64_t{shape.max_documents} * shape.max_length;
  const EstimatedGpuSizes sizes(deterministic);
  return static_cast<double>(sizes.attention_backward_scratch_bytes(shape, tokens, DType::kBF16)) / (1 << 20);
}

// By the formulas that cuDNN 9.19's plans for an H200 follow with heads of 64 and 128 (docs/cuda-matmul-attention.md).
TEST(EstimatedSizes, AttentionsBackwardAsksForWhatTheLibrarysPlansDo) {
  EXPECT_EQ(backward_mib(false, documents(4, 4096, 24, 8, 256)), 1.5 + 384 + 384);
  EXPECT_EQ(backward_mib(true, documents(4, 4096, 24, 8, 256)), 3072 + 1.5 + 384);
  EXPECT_EQ(backward_mib(false, documents(4, 4096, 24, 24, 256)), 1.5 + 384);
  EXPECT_NEAR(backward_mib(true, documents(4, 4097, 24, 8, 256)), 3603.094, 1e-3);
}

TEST(EstimatedSizes, OurOwnKernelsScratchGrowsWithTheTokensAlone) {
  EXPECT_EQ(backward_mib(true, documents(16, 2048, 12, 12, 64)), 99.0);
  EXPECT_EQ(backward_mib(true, documents(1, 131072, 32, 8, 64)), 1056.0);
  EXPECT_EQ(backward_mib(false, documents(1, 131072, 32, 8, 64)), 1056.0);
  EXPECT_EQ(backward_mib(true, documents(4, 4096, 24, 8, 128)), 195.0);
  EXPECT_EQ(backward_mib(true, documents(4, 4096, 32, 32, 96)), 196.0);
  EXPECT_EQ(backward_mib(true, documents(64, 8192, 24, 8, 128)), 6240.0);
}

TEST(EstimatedSizes, APlanThatWantsTooMuchIsNotUsed) {
  EXPECT_EQ(backward_mib(true, documents(64, 8192, 24, 8, 256)), 48.0) << "one number a query row";
}

TEST(EstimatedSizes, PackedDocumentsOfOtherHeadsAndFp32NeedOneNumberAQueryRow) {
  op::AttentionShape shape = documents(2, 64, 4, 2, 256);
  const EstimatedGpuSizes sizes(true);
  EXPECT_EQ(sizes.attention_forward_scratch_bytes(shape, 128, DType::kBF16), 0);
  EXPECT_EQ(sizes.attention_backward_scratch_bytes(shape, 128, DType::kF32), 128 * 4 * 4);
  shape.uniform = false;
  EXPECT_EQ(sizes.attention_backward_scratch_bytes(shape, 128, DType::kBF16), 128 * 4 * 4);
}

TEST(EstimatedSizes, PartsOfAttentionNeedWhatTheirKernelTakesForTheRowsOfARank) {
  op::AttentionShape shape = documents(1, 8192, 4, 2, 128);
  const EstimatedGpuSizes sizes(true);
  EXPECT_EQ(sizes.attention_part_forward_scratch_bytes(shape, 4096, DType::kBF16), 0);
  EXPECT_EQ(sizes.attention_part_backward_scratch_bytes(shape, 4096, DType::kBF16), 4096 * 4 * 4 * (128 + 2));
  EXPECT_EQ(sizes.attention_part_backward_scratch_bytes(shape, 4096, DType::kF32), 4096 * 4 * 4);
  shape.has_alibi = true;
  EXPECT_EQ(sizes.attention_part_backward_scratch_bytes(shape, 4096, DType::kBF16), 4096 * 4 * 4);
  EXPECT_EQ(sizes.attention_part_backward_scratch_bytes(documents(1, 8192, 4, 2, 256), 4096, DType::kBF16), 4096 * 16);
}

}  // namespace
}  // namespace litespark
