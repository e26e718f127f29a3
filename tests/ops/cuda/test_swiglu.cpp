// SPDX-License-Identifier: Apache-2.0
// SwiGLU on the GPU: widths around the chunks of a row, gradients written over their inputs, gates far from zero.
#include <span>

#include "ops/cuda/cuda_conformance.h"
#include "ops/swiglu_cases.h"
#include "reference/swiglu.h"

namespace litespark::test {
namespace {

template <class Op>
void expect_rule(const OpCase<Op>& test) {
  expect_kernel_rule(test.name, execute_on_cuda(test), reference::evaluate<double>(test.op, test.inputs),
                     reference::evaluate<float>(test.op, test.inputs));
}

TEST(SwiGlu, BothWaysKeepTheErrorRule) {
  for (const std::span<const SwiGluCase> cases : {std::span<const SwiGluCase>(kSwiGluCases), {kWideSwiGluCases}}) {
    for (const SwiGluCase& c : cases) {
      expect_rule(swiglu_forward_case(c));
      expect_rule(swiglu_backward_case(c));
    }
  }
}

TEST(SwiGlu, GradientMayBeWrittenOverItsInput) {
  for (const SwiGluCase& c : {SwiGluCase{67, 33, DType::kBF16, 2}, SwiGluCase{33, 4096, DType::kBF16, 2}}) {
    auto test = swiglu_backward_case(c);
    const Execution apart = execute_on_cuda(test);
    test.aliases = {{"dgate_up", "gate_up"}};
    EXPECT_EQ(execute_on_cuda(test).bytes.at("dgate_up"), apart.bytes.at("dgate_up")) << test.name;
  }
}

// report:B26: exp overflows at both ends; silu(-1e4) is 0 and silu(1e4) is 1e4.
TEST(SwiGlu, ExtremeGatesGiveNoNan) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    auto test = swiglu_forward_case({1, 8, dtype, 1});
    test.inputs.tensors["gate_up"] = {1e4, -1e4, 1e4, -1e4, 100, -100, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    const std::vector<double> h = execute_on_cuda(test).outputs.at("h");
    EXPECT_EQ(h[0], round_to(dtype, 1e4));
    EXPECT_EQ(h[1], 0.0);
    EXPECT_EQ(h[4], 100.0);
    EXPECT_EQ(h[6], 0.0);
  }
}

}  // namespace
}  // namespace litespark::test
