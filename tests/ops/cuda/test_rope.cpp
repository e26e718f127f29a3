// SPDX-License-Identifier: Apache-2.0
// RoPE on the GPU: head widths that fill a warp's lanes evenly and not, value heads untouched, there and back.
#include "ops/cuda/cuda_conformance.h"
#include "ops/rope_cases.h"

namespace litespark::test {
namespace {

TEST(Rope, KeepsTheErrorRuleBothWays) {
  for (const OpCase<op::Rope<Tensor>>& test : rope_cases()) {
    expect_kernel_rule(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs),
                       reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(Rope, ValueHeadsKeepTheirBits) {
  for (const OpCase<op::Rope<Tensor>>& test : rope_cases()) {
    const Execution execution = execute_on_cuda(test);
    const int64_t columns = test.op.qkv.columns();
    for (size_t i = 0; i < test.inputs.at("qkv").size(); ++i) {
      if (static_cast<int64_t>(i) % columns < int64_t{test.op.num_rotated_heads} * test.op.head_dim) continue;
      ASSERT_EQ(execution.outputs.at("qkv")[i], test.inputs.at("qkv")[i]);
    }
  }
}

}  // namespace
}  // namespace litespark::test
