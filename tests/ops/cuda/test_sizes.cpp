// SPDX-License-Identifier: Apache-2.0
// What the planner is told: exact, the same for the same shape, and enough for the ops that are run with it.
#include "ops/cuda/attention_cases.h"

namespace litespark::test {
namespace {

TEST(CudaSizes, AreExactAndNeedNoPackedCopies) {
  const BackendSizes& sizes = cuda_backend().sizes();
  EXPECT_TRUE(sizes.exact());
  EXPECT_FALSE(sizes.packs_weights(DType::kBF16));
  EXPECT_EQ(sizes.packed_bytes({.in_features = 8, .out_features = 8}, op::PackForm::kForward), 0);
}

TEST(CudaSizes, AMatmulTakesItsWorkspaceAndRoomForABiasInBf16) {
  const BackendSizes& sizes = cuda_backend().sizes();
  LinearShape shape{.rows = 4, .in_features = 8, .out_features = 1000, .compute = DType::kBF16};
  const int64_t workspace = int64_t{32} << 20;
  EXPECT_EQ(sizes.matmul_forward_scratch_bytes(shape), workspace);
  EXPECT_EQ(sizes.matmul_backward_input_scratch_bytes(shape), workspace);
  EXPECT_EQ(sizes.matmul_backward_weight_scratch_bytes(shape), workspace);
  shape.has_bias = true;
  EXPECT_EQ(sizes.matmul_forward_scratch_bytes(shape), workspace + 2048);
}

TEST(CudaSizes, PortableAttentionKeepsOneFloatAQueryRowInTheBackwardAlone) {
  const GpuAttentionCase c{.heads = 6, .kv_heads = 2, .dim = 64, .lengths = {100, 28}};
  const BackendSizes& sizes = portable_backend().sizes();
  EXPECT_EQ(sizes.attention_forward_scratch_bytes(c.shape(), c.rows(), DType::kBF16), 0);
  EXPECT_EQ(sizes.attention_backward_scratch_bytes(c.shape(), c.rows(), DType::kBF16), 4 * 6 * 128);
}

}  // namespace
}  // namespace litespark::test
