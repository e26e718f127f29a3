// SPDX-License-Identifier: Apache-2.0
// RoPE: the kernel error rule, positions far beyond what bf16 can count, inverse, and which heads rotate.
#include "ops/cpu_conformance.h"
#include "ops/rope_cases.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

TEST(Rope, KeepsTheErrorRule) {
  for (const OpCase<op::Rope<Tensor>>& test : rope_cases()) {
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    const Values plain = reference::evaluate<float>(test.op, test.inputs);
    for (const CpuIsa isa : usable_isas()) {
      expect_kernel_rule(test.name, execute_with_threads(isa, test), truth, plain);
    }
  }
}

TEST(Rope, LeavesTheValueHeadsAlone) {
  const RopeCase c{.rows = 5, .rotated = 3, .total = 4, .dim = 10};
  const auto test = rope_case(c, {1, 2, 3, 4, 5}, 6, 3);
  const std::vector<double> qkv = execute_with_threads(CpuIsa::kAvx512Bf16, test).outputs.at("qkv");
  for (size_t row = 0; row < 5; ++row) {
    for (size_t i = 30; i < 40; ++i) EXPECT_EQ(qkv[row * 40 + i], test.inputs.at("qkv")[row * 40 + i]);
    EXPECT_NE(qkv[row * 40], test.inputs.at("qkv")[row * 40]);
  }
}

// report:B21: bf16 cannot tell 4095 from 4096 nor 15962 from 15968; angles must not pass through it.
TEST(Rope, NeighbouringLargePositionsTurnDifferentlyAndRightlyInBf16) {
  const RopeCase c{.rows = 4, .rotated = 1, .total = 1, .dim = 64, .dtype = DType::kBF16};
  const std::vector<double> positions = {4095, 4096, 15962, 15968};
  auto test = rope_case(c, positions, 16000, 4);
  for (size_t row = 0; row < 4; ++row) {
    for (size_t i = 0; i < 64; ++i) test.inputs.tensors["qkv"][row * 64 + i] = i < 32 ? 1.0 : 0.0;
  }
  for (const CpuIsa isa : usable_isas()) {
    const std::vector<double> qkv = execute_with_threads(isa, test).outputs.at("qkv");
    for (size_t row = 0; row < 4; ++row) {
      for (size_t i = 0; i < 32; ++i) {
        const double angle = positions[row] * std::pow(10000.0, -2.0 * static_cast<double>(i) / 64);
        EXPECT_NEAR(qkv[row * 64 + i], std::cos(angle), 0x1p-8) << "position " << positions[row] << ", pair " << i;
        EXPECT_NEAR(qkv[row * 64 + 32 + i], std::sin(angle), 0x1p-8);
      }
    }
    EXPECT_GT(std::abs(qkv[0] - qkv[64]), 0.1);
    EXPECT_GT(std::abs(qkv[128] - qkv[192]), 0.1);
  }
}

TEST(Rope, InverseTurnsBack) {
  RopeCase c{.rows = 9, .rotated = 2, .total = 3, .dim = 16};
  auto test = rope_case(c, random_integers(9, 5, 100), 100, 5);
  const std::vector<double> before = test.inputs.at("qkv");
  test.inputs.tensors["qkv"] = execute_with_threads(CpuIsa::kAvx512Bf16, test).outputs.at("qkv");
  test.op.inverse = true;
  const std::vector<double> after = execute_with_threads(CpuIsa::kAvx512Bf16, test).outputs.at("qkv");
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 1e-6);
}

TEST(Rope, ReferenceInverseIsTheDerivativeOfTheForward) {
  const RopeCase c{.rows = 3, .rotated = 2, .total = 3, .dim = 4, .dtype = DType::kF64};
  const auto forward = rope_case(c, {0, 3, 7}, 8, 6);
  const std::vector<double> slope = random_normal(DType::kF64, 36, 7);
  auto backward = forward;
  backward.op.inverse = true;
  backward.inputs.tensors["qkv"] = slope;
  expect_gradient("qkv", forward.inputs.at("qkv"), reference::evaluate<double>(backward.op, backward.inputs).at("qkv"),
                  [&](const std::vector<double>& qkv) {
                    Values inputs = forward.inputs;
                    inputs.tensors["qkv"] = qkv;
                    return dot(reference::evaluate<double>(forward.op, inputs).at("qkv"), slope);
                  });
}

}  // namespace
}  // namespace litespark::test
