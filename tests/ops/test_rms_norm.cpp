// SPDX-License-Identifier: Apache-2.0
// RMSNorm: the kernel error rule, exact residual sums, gradients by finite differences, edge rows.
#include <cmath>
#include <iterator>

#include "ops/cpu_conformance.h"
#include "ops/rms_norm_cases.h"
#include "reference/rms_norm.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

/// The shared cases, and the pair of dtypes that only the CPU takes.
std::vector<NormCase> norm_cases() {
  std::vector<NormCase> cases(std::begin(kNormCases), std::end(kNormCases));
  cases.push_back({19, 768, DType::kBF16, DType::kF32, true, false});
  return cases;
}

TEST(RmsNorm, ForwardKeepsTheErrorRule) {  // fault:C8
  for (const NormCase& c : norm_cases()) {
    const auto test = norm_forward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(RmsNorm, ResidualSumIsRoundedOnce) {
  for (const NormCase& c : norm_cases()) {
    if (!c.has_delta) continue;
    const auto test = norm_forward_case(c);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    EXPECT_EQ(execute_on_cpu(test).outputs.at("sum"), truth.at("sum")) << test.name;
  }
}

TEST(RmsNorm, SumMayBeWrittenOverX) {
  auto test = norm_forward_case({.rows = 33,
                                 .columns = 50,
                                 .residual = DType::kF32,
                                 .compute = DType::kBF16,
                                 .has_delta = true,
                                 .accumulate = false});
  const Execution apart = execute_on_cpu(test);
  test.aliases = {{"sum", "x"}};
  const Execution in_place = execute_on_cpu(test);
  EXPECT_EQ(in_place.bytes.at("sum"), apart.bytes.at("sum"));
  EXPECT_EQ(in_place.bytes.at("y"), apart.bytes.at("y"));
}

TEST(RmsNorm, BackwardKeepsTheErrorRule) {
  for (const NormCase& c : norm_cases()) {
    for (const bool first : {false, true}) {
      const auto test = norm_backward_case(c, first);
      expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                                reference::evaluate<float>(test.op, test.inputs));
    }
  }
}

TEST(RmsNorm, CastGradientIsTheRoundedGradient) {
  const auto test = norm_backward_case(kNormCases[3], false);
  const Execution execution = execute_on_cpu(test);
  EXPECT_EQ(execution.bytes.at("dresidual_cast"), encode(DType::kBF16, execution.outputs.at("dresidual")));
}

// report:B26: a row of zeros has no direction; eps alone keeps it finite.
TEST(RmsNorm, ZeroRowsAndZeroGradientsGiveNoNan) {
  auto forward = norm_forward_case(kNormCases[7]);
  std::fill(forward.inputs.tensors["x"].begin(), forward.inputs.tensors["x"].end(), 0.0);
  const Execution normed = execute_on_cpu(forward);
  for (const double y : normed.outputs.at("y")) ASSERT_EQ(y, 0.0);
  auto backward = norm_backward_case(kNormCases[7], true);
  std::fill(backward.inputs.tensors["dy"].begin(), backward.inputs.tensors["dy"].end(), 0.0);
  const Execution gradient = execute_on_cpu(backward);
  for (const double d : gradient.outputs.at("dresidual")) ASSERT_EQ(d, 0.0);
}

TEST(RmsNorm, ReferenceBackwardIsTheDerivativeOfItsForward) {
  const NormCase c{.rows = 3,
                   .columns = 5,
                   .residual = DType::kF64,
                   .compute = DType::kF64,
                   .has_delta = false,
                   .accumulate = false};
  auto forward = norm_forward_case(c);
  auto backward = norm_backward_case(c, true);
  backward.inputs.tensors["x"] = forward.inputs.at("x");
  backward.inputs.tensors["weight"] = forward.inputs.at("weight");
  backward.inputs.tensors["rstd"] = reference::evaluate<double>(forward.op, forward.inputs).at("rstd");
  const Values gradient = reference::evaluate<double>(backward.op, backward.inputs);
  const auto loss_of = [&](const std::string& name) {
    return [&, name](const std::vector<double>& value) {
      Values inputs = forward.inputs;
      inputs.tensors[name] = value;
      return dot(reference::evaluate<double>(forward.op, inputs).at("y"), backward.inputs.at("dy"));
    };
  };
  expect_gradient("dresidual", forward.inputs.at("x"), gradient.at("dresidual"), loss_of("x"));
  expect_gradient("dweight", forward.inputs.at("weight"), gradient.at("dweight"), loss_of("weight"));
}

}  // namespace
}  // namespace litespark::test
