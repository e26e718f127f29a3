// SPDX-License-Identifier: Apache-2.0
// SwiGLU: the kernel error rule, in place, far ends of the gate, gradients by finite differences.
#include <cmath>

#include "ops/cpu_conformance.h"
#include "ops/swiglu_cases.h"
#include "reference/swiglu.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

TEST(SwiGlu, ForwardKeepsTheErrorRule) {
  for (const SwiGluCase& c : kSwiGluCases) {
    const auto test = swiglu_forward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(SwiGlu, BackwardKeepsTheErrorRule) {
  for (const SwiGluCase& c : kSwiGluCases) {
    const auto test = swiglu_backward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(SwiGlu, GradientMayBeWrittenOverItsInput) {
  for (const SwiGluCase& c : kSwiGluCases) {
    auto test = swiglu_backward_case(c);
    const Execution apart = execute_on_cpu(test);
    test.aliases = {{"dgate_up", "gate_up"}};
    EXPECT_EQ(execute_on_cpu(test).bytes.at("dgate_up"), apart.bytes.at("dgate_up")) << test.name;
  }
}

// report:B26: exp overflows or vanishes at the ends; the value and its gradient must not become NaN.
TEST(SwiGlu, FarGatesStayFinite) {
  const std::vector<double> gates = {-1e4, -200, -100, -89, -88, -87.5, -0.0, 0.0, 87.5, 88, 89, 100, 200, 1e4};
  const int64_t width = static_cast<int64_t>(gates.size());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const SwiGluCase c{.rows = 1, .width = width, .dtype = dtype, .scale = 1};
    std::vector<double> gate_up = gates;
    gate_up.insert(gate_up.end(), gates.size(), 1.0);
    for (double& value : gate_up) value = round_to(dtype, value);
    auto forward = swiglu_forward_case(c);
    forward.inputs.tensors["gate_up"] = gate_up;
    const std::vector<double> h = execute_on_cpu(forward).outputs.at("h");
    auto backward = swiglu_backward_case(c);
    backward.inputs.tensors["gate_up"] = gate_up;
    const std::vector<double> slopes = execute_on_cpu(backward).outputs.at("dgate_up");
    for (size_t i = 0; i < gates.size(); ++i) {
      EXPECT_NEAR(h[i], std::max(gate_up[i], 0.0), 1e-30) << gates[i];
      EXPECT_TRUE(std::isfinite(slopes[i])) << gates[i];
    }
  }
}

TEST(SwiGlu, NanPassesThrough) {
  const SwiGluCase c{.rows = 1, .width = 3, .dtype = DType::kF32, .scale = 1};
  auto test = swiglu_forward_case(c);
  test.inputs.tensors["gate_up"] = {NAN, 1, 2, 1, NAN, 3};
  const std::vector<double> h = execute(cpu_backend(usable_isas().back(), 1), test).outputs.at("h");
  EXPECT_TRUE(std::isnan(h[0]) && std::isnan(h[1]) && std::isfinite(h[2]));
}

TEST(SwiGlu, ReferenceBackwardIsTheDerivativeOfItsForward) {
  const SwiGluCase c{.rows = 2, .width = 4, .dtype = DType::kF64, .scale = 1};
  const auto forward = swiglu_forward_case(c);
  auto backward = swiglu_backward_case(c);
  backward.inputs.tensors["gate_up"] = forward.inputs.at("gate_up");
  expect_gradient("dgate_up", forward.inputs.at("gate_up"),
                  reference::evaluate<double>(backward.op, backward.inputs).at("dgate_up"),
                  [&](const std::vector<double>& value) {
                    const Values inputs{.tensors = {{"gate_up", value}}, .state = {}};
                    return dot(reference::evaluate<double>(forward.op, inputs).at("h"), backward.inputs.at("dh"));
                  });
}

}  // namespace
}  // namespace litespark::test
