// SPDX-License-Identifier: Apache-2.0
// Attention, the products and the newer streaming kernels on the smallest shapes that reach each of their paths: what
// compute-sanitizer, which slows a kernel a hundred times, can run through in seconds (tools/gpu_sanitize.sh). Each
// case keeps its error rule here too.
#include "ops/attention_part_cases.h"
#include "ops/cuda/attention_cases.h"
#include "ops/cuda/linear_cases.h"
#include "ops/loss_cases.h"
#include "reference/loss.h"
#include "reference/matmul.h"

namespace litespark::test {
namespace {

/// A tile and a bit, a document of one token, rows of none; more query heads than key heads; a window.
std::vector<GpuAttentionCase> small_cases(DType dtype, const std::vector<int>& dims) {
  std::vector<GpuAttentionCase> cases;
  for (const int dim : dims) {
    cases.push_back({.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {66, 1}, .tail_rows = 2, .dtype = dtype});
    cases.push_back({.heads = 1, .kv_heads = 1, .dim = dim, .window = 30, .lengths = {70}, .dtype = dtype});
  }
  return cases;
}

void expect_attention_rule(Backend& backend, const GpuAttentionCase& c) {
  const auto forward = attention_forward_case(backend, c, 1);
  Values truth = attention_truth(c, forward.inputs);
  truth.tensors.erase("log_sum_exp");
  expect_kernel_rule("forward " + forward.name, execute(backend, forward), truth, attention_plain(c, forward.inputs));
  const auto backward = attention_backward_case(backend, c, 2);
  expect_kernel_rule("backward " + backward.name, execute(backend, backward),
                     attention_gradient_truth(c, backward.inputs), attention_gradient_plain(c, backward.inputs));
}

TEST(SmallShapes, AttentionOnTensorCores) {
  for (const GpuAttentionCase& c : small_cases(DType::kBF16, {16, 64, 128})) {
    expect_attention_rule(portable_backend(), c);
  }
}

TEST(SmallShapes, AttentionInF32) {
  for (const GpuAttentionCase& c : small_cases(DType::kF32, {24})) expect_attention_rule(portable_backend(), c);
}

TEST(SmallShapes, AttentionOnHopper) {
  const auto backend = make_cuda_backend({.attention = AttentionKind::kHopper});
  if (backend->name().find("sm_90") == std::string::npos) GTEST_SKIP() << "no Hopper part here";
  for (const int dim : {64, 96, 128, 256}) {
    expect_attention_rule(*backend, {.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {130, 1}, .tail_rows = 2});
    expect_attention_rule(*backend, {.heads = 1, .kv_heads = 1, .dim = dim, .window = 70, .lengths = {200, 3}});
  }
}

TEST(SmallShapes, GradientsThatHopperRotatesBack) {
  const auto backend = make_cuda_backend({.attention = AttentionKind::kHopper});
  if (backend->name().find("sm_90") == std::string::npos) GTEST_SKIP() << "no Hopper part here";
  for (const int dim : {64, 96, 128}) {
    const GpuAttentionCase c{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {130, 1}, .tail_rows = 2};
    auto test = attention_backward_case(*backend, c, 2);
    Values gradient = test.inputs;
    gradient.tensors["qkv"] = attention_gradient_truth(c, test.inputs).at("dqkv");
    add_angles(test, DType::kBF16);
    for (const char* const name : {"table", "positions"}) gradient.tensors[name] = test.inputs.at(name);
    test.op.abs_max = shape_only(DType::kF32, {1});
    test.inputs.tensors["abs_max"] = {0};
    const Values expected = reference::evaluate<double>(op::rotation_of(test.op, test.op.dqkv, true), gradient);
    expect_near_all(c.name(), execute(*backend, test).outputs.at("dqkv"), expected.at("qkv"), 1e-2);
  }
}

TEST(SmallShapes, AttentionThatRotatesOnLoad) {
  const auto backend = make_cuda_backend({.attention = AttentionKind::kHopper});
  if (backend->name().find("sm_90") == std::string::npos) GTEST_SKIP() << "no Hopper part here";
  for (const int dim : {64, 128}) {
    const GpuAttentionCase c{.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {130, 1}, .tail_rows = 2};
    const auto test = rotated_on_load(attention_forward_case(*backend, c, 1), DType::kF32);
    EXPECT_EQ(execute(*backend, test).bytes.at("out"), execute_after_rope(*backend, test).bytes.at("out")) << test.name;
  }
}

TEST(SmallShapes, PartsOfAttention) {
  for (const int dim : {16, 64, 96, 128, 256}) {
    const AttentionPartCase c{{.heads = 2,
                               .kv_heads = 1,
                               .dim = dim,
                               .window = 100,
                               .lengths = {150, 1, 60},
                               .tail_rows = 45,
                               .dtype = DType::kBF16},
                              2};
    expect_whole_attention(
        c, [](const auto& test) { return execute(cuda_backend(), with_scratch(cuda_backend(), test)).outputs; });
  }
}

// Without `prepare`: timing is hundreds of launches.
TEST(SmallShapes, ProductsOfALinearLayer) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool flag : {false, true}) {
      const GpuLinearCase c{.rows = 65, .inputs = 72, .outputs = 40, .dtype = dtype, .bias = flag, .accumulate = flag};
      const auto backend = make_cuda_backend({});
      const auto expect_near = [&](const auto& test) {
        CaseMemory memory(*backend, test.inputs, test.aliases);
        const auto bound = test.op.map(memory);
        backend->run(bound);
        backend->synchronize();
        const Execution execution = memory.collect(test.name);
        for (const auto& [name, expected] : reference::evaluate<double>(test.op, test.inputs).tensors) {
          const std::vector<double>& actual = execution.outputs.at(name);
          for (size_t i = 0; i < expected.size(); ++i) {
            ASSERT_NEAR(actual[i], expected[i], dtype == DType::kBF16 ? 0.3 : 1e-3) << test.name << ", " << name;
          }
        }
      };
      expect_near(matmul_forward_case(c));
      expect_near(matmul_input_case(c));
      expect_near(matmul_weight_case(c));
    }
  }
}

TEST(SmallShapes, CrossEntropyThroughTheRingAndInOneBlock) {
  for (const bool through_ring : {false, true}) {
    const auto backend = make_cuda_backend({.kernels = {.loss_through_ring = through_ring}});
    for (const int64_t vocab : {32000, 128256}) {
      const auto test = loss_case({6, vocab, DType::kBF16, 0, true, true, 4});
      expect_kernel_rule(test.name + (through_ring ? " through the ring" : " in one block"), execute(*backend, test),
                         reference::evaluate<double>(test.op, test.inputs),
                         reference::evaluate<float>(test.op, test.inputs));
    }
  }
}

}  // namespace
}  // namespace litespark::test
