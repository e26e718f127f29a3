// SPDX-License-Identifier: Apache-2.0
// The Hopper kernels with SwiGLU inside a product: the kernel error rule around their tiles, h with the bits of the op
// by itself, the gradient over its input, the same bits every time.
#include "ops/cuda/cuda_backend_impl.h"
#include "ops/cuda/cuda_conformance.h"
#include "ops/cuda/gated_product.h"
#include "ops/gated_cases.h"
#include "ops/swiglu_cases.h"
#include "reference/gated.h"

namespace litespark::test {
namespace {

cuda::CudaBackend& gpu() {
  return dynamic_cast<cuda::CudaBackend&>(cuda_backend());
}

bool has_kernels() {
  return cuda::has_gated_product(DType::kBF16, 64, 64, gpu().context());
}

/// Runs the one kernel, whatever would be chosen.
template <class Op>
Execution execute_joined(const OpCase<Op>& test) {
  CaseMemory memory(gpu(), test.inputs, test.aliases);
  const Op bound = test.op.map(memory);
  validate(bound);
  gpu().run_joined(bound);
  gpu().synchronize();
  return memory.collect(test.name);
}

/// Around tiles of 128 tokens (two of a cluster), 128 or 256 columns and 64 in depth, and the ring of three stages.
constexpr GatedCase kCases[] = {{1, 8, 8, DType::kBF16},       {128, 64, 128, DType::kBF16},
                                {129, 72, 136, DType::kBF16},  {256, 192, 256, DType::kBF16},
                                {257, 200, 264, DType::kBF16}, {600, 512, 520, DType::kBF16}};

TEST(GatedProduct, BothWaysKeepTheErrorRule) {
  if (!has_kernels()) GTEST_SKIP() << "no Hopper part here";
  for (const GatedCase& c : kCases) {
    const auto forward = gated_forward_case(c);
    expect_kernel_rule("forward " + c.name(), execute_joined(forward),
                       reference::evaluate<double>(forward.op, forward.inputs),
                       reference::evaluate<float>(forward.op, forward.inputs));
    const auto backward = gated_backward_case(c);
    expect_kernel_rule("backward " + c.name(), execute_joined(backward),
                       reference::evaluate<double>(backward.op, backward.inputs),
                       reference::evaluate<float>(backward.op, backward.inputs));
  }
}

TEST(GatedProduct, HHasTheBitsOfSwiGluOfWhatWasWritten) {
  if (!has_kernels()) GTEST_SKIP() << "no Hopper part here";
  for (const GatedCase& c : kCases) {
    const Execution joined = execute_joined(gated_forward_case(c));
    auto activation = swiglu_forward_case({c.rows, c.columns, c.dtype, 1});
    activation.inputs.tensors["gate_up"] = joined.outputs.at("gate_up");
    EXPECT_EQ(execute(gpu(), activation).bytes.at("h"), joined.bytes.at("h")) << c.name();
  }
}

TEST(GatedProduct, GradientMayBeWrittenOverItsInput) {
  if (!has_kernels()) GTEST_SKIP() << "no Hopper part here";
  for (const GatedCase& c : kCases) {
    auto test = gated_backward_case(c);
    const Execution apart = execute_joined(test);
    test.aliases = {{"dgate_up", "gate_up"}};
    EXPECT_EQ(execute_joined(test).bytes.at("dgate_up"), apart.bytes.at("dgate_up")) << c.name();
  }
}

TEST(GatedProduct, FiftyRunsGiveTheSameBits) {
  if (!has_kernels()) GTEST_SKIP() << "no Hopper part here";
  const auto forward = gated_forward_case({1000, 256, 512, DType::kBF16});
  const auto backward = gated_backward_case({1000, 256, 512, DType::kBF16});
  const Execution first_forward = execute_joined(forward);
  const Execution first_backward = execute_joined(backward);
  for (int run = 1; run < 50; ++run) {
    ASSERT_EQ(execute_joined(forward).bytes.at("h"), first_forward.bytes.at("h"));
    ASSERT_EQ(execute_joined(backward).bytes.at("dgate_up"), first_backward.bytes.at("dgate_up"));
  }
}

}  // namespace
}  // namespace litespark::test
