// SPDX-License-Identifier: Apache-2.0
// cuDNN's attention on our packed tensors: the error rule in both directions, its own statistics, both orders of
// adding.
#include "ops/attention_statistics.h"
#include "ops/cuda/attention_cases.h"

namespace litespark::test {
namespace {

/// nullptr where the build or the machine has no cuDNN.
Backend* cudnn_backend(bool deterministic) {
  static std::map<bool, std::unique_ptr<Backend>> backends;
  try {
    auto& backend = backends[deterministic];
    if (!backend) {
      backend = make_cuda_backend({.deterministic = deterministic, .attention = AttentionKind::kCudnn});
    }
    return backend.get();
  } catch (const ConfigError&) {
    return nullptr;
  }
}

std::vector<GpuAttentionCase> uniform_cases() {
  return {{.heads = 6, .kv_heads = 2, .dim = 64, .lengths = {97, 97}},
          {.heads = 4, .kv_heads = 4, .dim = 128, .lengths = {256}},
          {.heads = 6, .kv_heads = 2, .dim = 128, .lengths = {129, 129, 129}},
          {.heads = 2, .kv_heads = 1, .dim = 64, .window = 50, .lengths = {300}},
          {.heads = 2, .kv_heads = 1, .dim = 32, .window = 1000, .lengths = {150, 150}}};
}

TEST(AttentionCudnn, ForwardKeepsTheErrorRule) {
  Backend* backend = cudnn_backend(true);
  if (backend == nullptr) GTEST_SKIP() << "no cuDNN here";
  for (const GpuAttentionCase& c : uniform_cases()) {
    const auto test = attention_forward_case(*backend, c, 5);
    Values truth = attention_truth(c, test.inputs);
    const Values plain = attention_plain(c, test.inputs);
    const Execution execution = execute_twice(*backend, test);
    expect_statistics(test.name, execution.outputs.at("log_sum_exp"),
                      statistics_by_document(truth.at("log_sum_exp"), c), 1e-3);
    truth.tensors.erase("log_sum_exp");
    expect_kernel_rule(test.name, execution, truth, plain);
  }
}

TEST(AttentionCudnn, BackwardKeepsTheErrorRuleInBothOrders) {
  for (const bool deterministic : {true, false}) {
    Backend* backend = cudnn_backend(deterministic);
    if (backend == nullptr) GTEST_SKIP() << "no cuDNN here";
    for (const GpuAttentionCase& c : uniform_cases()) {
      auto test = attention_backward_case(*backend, c, 6);
      const Values truth = attention_gradient_truth(c, test.inputs);
      const Values plain = attention_gradient_plain(c, test.inputs);
      test.inputs.tensors["log_sum_exp"] = statistics_by_document(test.inputs.at("log_sum_exp"), c);
      const Execution execution = deterministic ? execute_twice(*backend, test) : execute(*backend, test);
      expect_kernel_rule(test.name + (deterministic ? " deterministic" : " free"), execution, truth, plain);
    }
  }
}

TEST(AttentionCudnn, IsUsedAndNamedForEqualDocumentsInBf16) {
  Backend* backend = cudnn_backend(true);
  if (backend == nullptr) GTEST_SKIP() << "no cuDNN here";
  const GpuAttentionCase c{.heads = 2, .kv_heads = 1, .dim = 64, .lengths = {40, 40, 40, 40}};
  execute(*backend, attention_forward_case(*backend, c, 1));
  bool named = false;
  for (const auto& [key, choice] : backend->tuning()) {
    named |= key.starts_with("attention_forward n=160 ") && choice.starts_with("cudnn ");
  }
  EXPECT_TRUE(named);
}

}  // namespace
}  // namespace litespark::test
