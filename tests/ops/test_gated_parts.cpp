// SPDX-License-Identifier: Apache-2.0
// The two ops behind each product with SwiGLU inside: valid by their own contracts, with what is between them in
// scratch.
#include <gtest/gtest.h>

#include "ops/backend.h"
#include "ops/gated_cases.h"
#include "ops/gated_parts.h"

namespace litespark::test {
namespace {

constexpr GatedCase kCase{6, 3, 5, DType::kBF16};

TEST(GatedParts, OfForwardAreAProductAndSwiGlu) {
  const GatedForwardParts parts = parts_of(gated_forward_case(kCase).op);
  EXPECT_NO_THROW(validate(parts.product));
  EXPECT_NO_THROW(validate(parts.activation));
  EXPECT_EQ(parts.product.in_features, 3);
  EXPECT_EQ(parts.product.out_features, 10);
}

TEST(GatedParts, OfBackwardKeepTheGradientBetweenThemAtTheStartOfScratch) {
  std::vector<std::byte> memory(4096);
  op::GatedBackward<Tensor> op = gated_backward_case(kCase).op;
  op.scratch = {.data = memory.data(), .dtype = DType::kU8, .shape = {4096}, .device = Device::kCpu};
  const GatedBackwardParts parts = parts_of(op);
  EXPECT_NO_THROW(validate(parts.product));
  EXPECT_NO_THROW(validate(parts.activation));
  EXPECT_EQ(parts.product.dx.data, memory.data());
  EXPECT_EQ(parts.activation.dh.data, memory.data());
  EXPECT_EQ(parts.product.scratch.data, memory.data() + 256) << "60 bytes of gradient, rounded up";
  EXPECT_EQ(parts.product.scratch.num_elements(), 4096 - 256);
}

TEST(GatedParts, ScratchMayEndBehindTheGradient) {
  op::GatedBackward<Tensor> op = gated_backward_case(kCase).op;
  op.scratch.shape = {256};
  EXPECT_FALSE(parts_of(op).product.scratch.has_value());
}

}  // namespace
}  // namespace litespark::test
