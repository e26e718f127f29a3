// SPDX-License-Identifier: Apache-2.0
// Per-head RMSNorm: the kernel error rule, untouched value heads, gradients by finite differences.
#include <cmath>

#include "core/checked.h"
#include "ops/cpu_conformance.h"
#include "reference/head_norm.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

struct Case {
  int64_t tokens;
  int heads, kv_heads, dim;
  DType dtype;
  bool accumulate;
};

const Case kCases[] = {{1, 1, 1, 2, DType::kF32, false},     {3, 4, 2, 6, DType::kF32, true},
                       {65, 2, 1, 16, DType::kBF16, true},   {70, 3, 3, 33, DType::kF32, false},
                       {129, 4, 2, 64, DType::kBF16, false}, {0, 2, 1, 8, DType::kF32, false}};

std::string name_of(const Case& c) {
  return std::to_string(c.tokens) + " tokens, " + std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) +
         " heads of " + std::to_string(c.dim) + " " + std::string(dtype_name(c.dtype));
}

OpCase<op::HeadNormForward<Tensor>> forward_case(const Case& c) {
  const Shape shape{c.tokens, int64_t{c.heads + 2 * c.kv_heads} * c.dim};
  OpCase<op::HeadNormForward<Tensor>> test{.name = name_of(c),
                                           .op = {.out = shape_only(c.dtype, shape),
                                                  .rstd = shape_only(DType::kF32, {c.tokens, c.heads + c.kv_heads}),
                                                  .qkv = shape_only(c.dtype, shape),
                                                  .q_weight = shape_only(DType::kF32, {c.dim}),
                                                  .k_weight = shape_only(DType::kF32, {c.dim}),
                                                  .num_heads = c.heads,
                                                  .num_kv_heads = c.kv_heads,
                                                  .head_dim = c.dim},
                                           .inputs = {}};
  fill_at_random(test, 3);
  return test;
}

OpCase<op::HeadNormBackward<Tensor>> backward_case(const Case& c) {
  const Shape shape{c.tokens, int64_t{c.heads + 2 * c.kv_heads} * c.dim};
  OpCase<op::HeadNormBackward<Tensor>> test{
      .name = name_of(c),
      .op = {.dqkv = shape_only(c.dtype, shape),
             .dq_weight = shape_only(DType::kF32, {c.dim}),
             .dk_weight = shape_only(DType::kF32, {c.dim}),
             .qkv = shape_only(c.dtype, shape),
             .rstd = shape_only(DType::kF32, {c.tokens, c.heads + c.kv_heads}),
             .q_weight = shape_only(DType::kF32, {c.dim}),
             .k_weight = shape_only(DType::kF32, {c.dim}),
             .partials = shape_only(DType::kF32, {ceil_div(c.tokens, op::kRmsNormRowsPerBlock), 2 * c.dim}),
             .num_heads = c.heads,
             .num_kv_heads = c.kv_heads,
             .head_dim = c.dim,
             .accumulate = c.accumulate},
      .inputs = {}};
  fill_at_random(test, 4);
  for (double& rstd : test.inputs.tensors["rstd"]) rstd = round_to(DType::kF32, 0.5 + std::abs(rstd));
  return test;
}

TEST(HeadNorm, ForwardKeepsTheErrorRule) {
  for (const Case& c : kCases) {
    const auto test = forward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(HeadNorm, BackwardKeepsTheErrorRule) {
  for (const Case& c : kCases) {
    const auto test = backward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(HeadNorm, ValueHeadsPassUnchanged) {
  const Case& c = kCases[1];
  const size_t width = static_cast<size_t>((c.heads + 2 * c.kv_heads) * c.dim);
  const size_t values = static_cast<size_t>((c.heads + c.kv_heads) * c.dim);
  const auto forward = forward_case(c);
  const auto backward = backward_case(c);
  const std::vector<double> out = execute_on_cpu(forward).outputs.at("out");
  const std::vector<double> dqkv = execute_on_cpu(backward).outputs.at("dqkv");
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % width < values) continue;
    EXPECT_EQ(out[i], forward.inputs.at("qkv")[i]);
    EXPECT_EQ(dqkv[i], backward.inputs.at("dqkv")[i]);
  }
}

TEST(HeadNorm, ReferenceBackwardIsTheDerivativeOfItsForward) {
  const Case c{.tokens = 2, .heads = 2, .kv_heads = 1, .dim = 3, .dtype = DType::kF64, .accumulate = false};
  auto forward = forward_case(c);
  auto backward = backward_case(c);
  for (const char* name : {"qkv", "q_weight", "k_weight"}) backward.inputs.tensors[name] = forward.inputs.at(name);
  backward.inputs.tensors["rstd"] = reference::evaluate<double>(forward.op, forward.inputs).at("rstd");
  const Values gradient = reference::evaluate<double>(backward.op, backward.inputs);
  const auto loss_of = [&](const std::string& name) {
    return [&, name](const std::vector<double>& value) {
      Values inputs = forward.inputs;
      inputs.tensors[name] = value;
      return dot(reference::evaluate<double>(forward.op, inputs).at("out"), backward.inputs.at("dqkv"));
    };
  };
  expect_gradient("dqkv", forward.inputs.at("qkv"), gradient.at("dqkv"), loss_of("qkv"));
  expect_gradient("dq_weight", forward.inputs.at("q_weight"), gradient.at("dq_weight"), loss_of("q_weight"));
  expect_gradient("dk_weight", forward.inputs.at("k_weight"), gradient.at("dk_weight"), loss_of("k_weight"));
}

}  // namespace
}  // namespace litespark::test
