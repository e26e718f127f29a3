// SPDX-License-Identifier: Apache-2.0
// The products with SwiGLU inside: the kernel error rule, the gradient over its input, gradients by finite differences.
#include "ops/cpu_conformance.h"
#include "ops/gated_cases.h"
#include "reference/gated.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

constexpr GatedCase kCases[] = {{300, 1, 1, DType::kF32},
                                {300, 8, 5, DType::kF32},
                                {33, 24, 40, DType::kF32},
                                {67, 32, 16, DType::kBF16},
                                {70, 48, 72, DType::kBF16}};

TEST(Gated, BothWaysKeepTheErrorRule) {
  for (const GatedCase& c : kCases) {
    const auto forward = gated_forward_case(c);
    expect_kernel_rule_on_cpu(forward, reference::evaluate<double>(forward.op, forward.inputs),
                              reference::evaluate<float>(forward.op, forward.inputs));
    const auto backward = gated_backward_case(c);
    expect_kernel_rule_on_cpu(backward, reference::evaluate<double>(backward.op, backward.inputs),
                              reference::evaluate<float>(backward.op, backward.inputs));
  }
}

TEST(Gated, GradientMayBeWrittenOverItsInput) {
  for (const GatedCase& c : kCases) {
    auto test = gated_backward_case(c);
    const Execution apart = execute_on_cpu(test);
    test.aliases = {{"dgate_up", "gate_up"}};
    EXPECT_EQ(execute_on_cpu(test).bytes.at("dgate_up"), apart.bytes.at("dgate_up")) << test.name;
  }
}

TEST(Gated, TheTruthOfBackwardIsTheSlopeOfThatOfForward) {
  // loss = sum of dout (silu(gate) up) weight^T
  const GatedCase c{3, 4, 5, DType::kF32};
  const auto test = gated_backward_case(c);
  const auto loss = [&](const std::vector<double>& gate_up) {
    double sum = 0;
    for (int64_t row = 0; row < c.rows; ++row) {
      for (int64_t column = 0; column < c.columns; ++column) {
        const double gate = gate_up[static_cast<size_t>(row * 2 * c.columns + column)];
        const double up = gate_up[static_cast<size_t>((row * 2 + 1) * c.columns + column)];
        for (int64_t k = 0; k < c.depth; ++k) {
          sum += test.inputs.at("dout")[static_cast<size_t>(row * c.depth + k)] *
                 test.inputs.at("weight")[static_cast<size_t>(k * c.columns + column)] * gate / (1 + std::exp(-gate)) *
                 up;
        }
      }
    }
    return sum;
  };
  expect_gradient("gate_up", test.inputs.at("gate_up"),
                  reference::evaluate<double>(test.op, test.inputs).at("dgate_up"), loss);
}

}  // namespace
}  // namespace litespark::test
