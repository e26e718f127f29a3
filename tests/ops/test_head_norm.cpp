// SPDX-License-Identifier: Apache-2.0
// Per-head RMSNorm: the kernel error rule, untouched value heads, gradients by finite differences.
#include "ops/cpu_conformance.h"
#include "ops/head_norm_cases.h"
#include "reference/head_norm.h"
#include "support/finite_differences.h"

namespace litespark::test {
namespace {

TEST(HeadNorm, ForwardKeepsTheErrorRule) {
  for (const HeadNormCase& c : kHeadNormCases) {
    const auto test = head_norm_forward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(HeadNorm, BackwardKeepsTheErrorRule) {
  for (const HeadNormCase& c : kHeadNormCases) {
    const auto test = head_norm_backward_case(c);
    expect_kernel_rule_on_cpu(test, reference::evaluate<double>(test.op, test.inputs),
                              reference::evaluate<float>(test.op, test.inputs));
  }
}

TEST(HeadNorm, ValueHeadsPassUnchanged) {
  const HeadNormCase& c = kHeadNormCases[1];
  const size_t width = static_cast<size_t>((c.heads + 2 * c.kv_heads) * c.dim);
  const size_t values = static_cast<size_t>((c.heads + c.kv_heads) * c.dim);
  const auto forward = head_norm_forward_case(c);
  const auto backward = head_norm_backward_case(c);
  const std::vector<double> out = execute_on_cpu(forward).outputs.at("out");
  const std::vector<double> dqkv = execute_on_cpu(backward).outputs.at("dqkv");
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % width < values) continue;
    EXPECT_EQ(out[i], forward.inputs.at("qkv")[i]);
    EXPECT_EQ(dqkv[i], backward.inputs.at("dqkv")[i]);
  }
}

TEST(HeadNorm, ReferenceBackwardIsTheDerivativeOfItsForward) {
  const HeadNormCase c{.tokens = 2, .heads = 2, .kv_heads = 1, .dim = 3, .dtype = DType::kF64, .accumulate = false};
  auto forward = head_norm_forward_case(c);
  auto backward = head_norm_backward_case(c);
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
