// SPDX-License-Identifier: Apache-2.0
// RMSNorm: the kernel error rule, exact residual sums, gradients by finite differences, edge rows.
#include <cmath>

#include "core/checked.h"
#include "ops/cpu_conformance.h"
#include "reference/rms_norm.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

struct Case {
  int64_t rows, channels;
  DType residual, compute;
  bool has_delta, accumulate;
};

/// One row and one channel, widths around and off multiples of 16, several row blocks, the 124M model's width.
const Case kCases[] = {
    {1, 1, DType::kF32, DType::kF32, false, false},     {3, 7, DType::kF32, DType::kF32, true, true},
    {5, 16, DType::kF32, DType::kBF16, true, false},    {65, 33, DType::kF32, DType::kBF16, true, true},
    {130, 64, DType::kBF16, DType::kBF16, true, false}, {64, 255, DType::kF32, DType::kF32, true, false},
    {200, 768, DType::kF32, DType::kBF16, true, true},  {67, 768, DType::kF32, DType::kF32, false, true},
    {19, 768, DType::kBF16, DType::kF32, true, false},  {0, 8, DType::kF32, DType::kF32, true, false}};

std::string name_of(const Case& c) {
  return std::to_string(c.rows) + "x" + std::to_string(c.channels) + " " + std::string(dtype_name(c.residual)) + "/" +
         std::string(dtype_name(c.compute));
}

OpCase<op::RmsNormForward<Tensor>> forward_case(const Case& c) {
  const Shape shape{c.rows, c.channels};
  OpCase<op::RmsNormForward<Tensor>> test{.name = name_of(c),
                                          .op = {.y = shape_only(c.compute, shape),
                                                 .rstd = shape_only(DType::kF32, {c.rows}),
                                                 .sum = c.has_delta ? shape_only(c.residual, shape) : Tensor{},
                                                 .x = shape_only(c.residual, shape),
                                                 .delta = c.has_delta ? shape_only(c.compute, shape) : Tensor{},
                                                 .weight = shape_only(DType::kF32, {c.channels})},
                                          .inputs = {}};
  fill_at_random(test, 1);
  return test;
}

OpCase<op::RmsNormBackward<Tensor>> backward_case(const Case& c, bool first) {
  const Shape shape{c.rows, c.channels};
  OpCase<op::RmsNormBackward<Tensor>> test{
      .name = name_of(c),
      .op = {.dresidual = shape_only(c.residual, shape),
             .dresidual_cast = c.residual == c.compute ? Tensor{} : shape_only(c.compute, shape),
             .dweight = shape_only(DType::kF32, {c.channels}),
             .dy = shape_only(c.compute, shape),
             .x = shape_only(c.residual, shape),
             .rstd = shape_only(DType::kF32, {c.rows}),
             .weight = shape_only(DType::kF32, {c.channels}),
             .partials = shape_only(DType::kF32, {ceil_div(c.rows, op::kRmsNormRowsPerBlock), c.channels}),
             .first = first,
             .accumulate = c.accumulate},
      .inputs = {}};
  fill_at_random(test, 2);
  for (double& rstd : test.inputs.tensors["rstd"]) rstd = round_to(DType::kF32, 0.5 + std::abs(rstd));
  return test;
}

TEST(RmsNorm, ForwardKeepsTheErrorRule) {  // fault:C8
  for (const Case& c : kCases) {
    const auto test = forward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(RmsNorm, ResidualSumIsRoundedOnce) {
  for (const Case& c : kCases) {
    if (!c.has_delta) continue;
    const auto test = forward_case(c);
    const Values truth = reference::evaluate<double>(test.op, test.inputs);
    EXPECT_EQ(execute_on_cpu(test).outputs.at("sum"), truth.at("sum")) << test.name;
  }
}

TEST(RmsNorm, SumMayBeWrittenOverX) {
  auto test = forward_case({.rows = 33,
                            .channels = 50,
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
  for (const Case& c : kCases) {
    for (const bool first : {false, true}) {
      const auto test = backward_case(c, first);
      expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                                reference::evaluate<float>(test.op, test.inputs));
    }
  }
}

TEST(RmsNorm, CastGradientIsTheRoundedGradient) {
  const auto test = backward_case(kCases[3], false);
  const Execution execution = execute_on_cpu(test);
  EXPECT_EQ(execution.bytes.at("dresidual_cast"), encode(DType::kBF16, execution.outputs.at("dresidual")));
}

// report:B26: a row of zeros has no direction; eps alone keeps it finite.
TEST(RmsNorm, ZeroRowsAndZeroGradientsGiveNoNan) {
  auto forward = forward_case(kCases[7]);
  std::fill(forward.inputs.tensors["x"].begin(), forward.inputs.tensors["x"].end(), 0.0);
  const Execution normed = execute_on_cpu(forward);
  for (const double y : normed.outputs.at("y")) ASSERT_EQ(y, 0.0);
  auto backward = backward_case(kCases[7], true);
  std::fill(backward.inputs.tensors["dy"].begin(), backward.inputs.tensors["dy"].end(), 0.0);
  const Execution gradient = execute_on_cpu(backward);
  for (const double d : gradient.outputs.at("dresidual")) ASSERT_EQ(d, 0.0);
}

TEST(RmsNorm, ReferenceBackwardIsTheDerivativeOfItsForward) {
  const Case c{.rows = 3,
               .channels = 5,
               .residual = DType::kF64,
               .compute = DType::kF64,
               .has_delta = false,
               .accumulate = false};
  auto forward = forward_case(c);
  auto backward = backward_case(c, true);
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
