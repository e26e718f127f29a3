// SPDX-License-Identifier: Apache-2.0
// The Hopper backward as a whole: the kernel error rule for all three gradients, the same bits every time in the
// default order, rows of no document zero, documents apart from each other.
#include <algorithm>
#include <cmath>

#include "ops/cuda/attention_cases.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

/// Prefers the Hopper kernels; nullptr on another part.
Backend* hopper_backend(bool deterministic) {
  static const std::unique_ptr<Backend> ordered = make_cuda_backend({.attention = AttentionKind::kHopper});
  static const std::unique_ptr<Backend> unordered =
      make_cuda_backend({.deterministic = false, .attention = AttentionKind::kHopper});
  if (ordered->name().find("sm_90") == std::string::npos) return nullptr;
  return deterministic ? ordered.get() : unordered.get();
}

/// Around the tiles of 64 and 128 and the rings of two stages; several key tiles a document, several documents a tile.
std::vector<GpuAttentionCase> backward_cases() {
  std::vector<GpuAttentionCase> cases;
  for (const int dim : {64, 96, 128}) {
    cases.push_back({.heads = 1, .kv_heads = 1, .dim = dim, .lengths = {1, 2}});
    cases.push_back({.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {200}, .tail_rows = 1, .magnitude = 8});
    for (const int window : {0, 70, 128, 200}) {
      cases.push_back({.heads = 6, .kv_heads = 2, .dim = dim, .window = window, .lengths = {1, 127, 128, 129, 300}});
      cases.push_back({.heads = 2, .kv_heads = 2, .dim = dim, .window = window, .lengths = {257, 257}});
      cases.push_back({.heads = 3, .kv_heads = 3, .dim = dim, .window = window, .lengths = {384, 384, 384}});
      cases.push_back({.heads = 1, .kv_heads = 1, .dim = dim, .window = window, .lengths = {640}, .tail_rows = 140});
    }
    cases.push_back({.heads = 4, .kv_heads = 2, .dim = dim, .lengths = {1, 63, 1, 64, 65, 1, 130}, .tail_rows = 11});
    cases.push_back({.heads = 6, .kv_heads = 2, .dim = dim, .lengths = {129, 300}, .off_heads = {0, 3, 4, 5}});
    cases.push_back({.heads = 8, .kv_heads = 4, .dim = dim, .window = 70, .lengths = {640}, .off_heads = {1, 2, 7}});
    cases.push_back({.heads = 1, .kv_heads = 1, .dim = dim, .lengths = std::vector<int>(70, 3), .spare_documents = 30});
  }
  return cases;
}

/// dqkv's columns of queries, then those of keys and values.
void expect_both_parts(const GpuAttentionCase& c, const std::vector<double>& ours, const std::vector<double>& truth,
                       const std::vector<double>& plain) {
  const int64_t columns = c.qkv_columns();
  for (const int64_t first : {int64_t{0}, c.out_columns()}) {
    const int64_t count = first == 0 ? c.out_columns() : columns - first;
    const auto part = [&](const std::vector<double>& all) { return columns_of(all, columns, first, count); };
    EXPECT_EQ(kernel_rule_violation(compare(part(ours), part(truth)), compare(part(plain), part(truth)), c.dtype), "")
        << c.name() << ": columns from " << first;
  }
}

void expect_error_rule(bool deterministic) {
  Backend* backend = hopper_backend(deterministic);
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const GpuAttentionCase& c : backward_cases()) {
    const auto test = attention_backward_case(*backend, c, 2);
    const std::vector<double> truth = attention_gradient_truth(c, test.inputs).at("dqkv");
    std::vector<double> plain = attention_gradient_plain(c, test.inputs).at("dqkv");
    for (double& value : plain) value = round_to(c.dtype, value);
    const Execution execution = deterministic ? execute_twice(*backend, test) : execute(*backend, test);
    expect_both_parts(c, execution.outputs.at("dqkv"), truth, plain);
  }
  bool ran = false;
  for (const auto& [key, choice] : backend->tuning())
    ran |= key.starts_with("attention_backward") && choice == "hopper";
  EXPECT_TRUE(ran);
}

TEST(AttentionBackward, OnHopperKeepsTheErrorRule) {
  expect_error_rule(true);
}

// The softmax of one score is 1 whatever the score: dQ and dK are differences of two equal sums of D products. A tensor
// core and a loop add those in different orders, so what is left is their rounding, not the 0 of a plain loop.
TEST(AttentionBackward, OnHopperAQueryThatSeesOneKeyHasNoGradientButRounding) {
  Backend* backend = hopper_backend(true);
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const int dim : {64, 96, 128}) {
    const GpuAttentionCase c{.heads = 1, .kv_heads = 1, .dim = dim, .lengths = {1}};
    const auto test = attention_backward_case(*backend, c, 2);
    const std::vector<double> gradient = execute_twice(*backend, test).outputs.at("dqkv");
    for (int column = 0; column < 2 * dim; ++column) {
      EXPECT_LE(std::abs(gradient[static_cast<size_t>(column)]), dim * 0x1.0p-24) << dim;
    }
  }
}

/// dqkv rotated back by the angles of `test`.
template <class Real>
std::vector<double> rotated_back(const OpCase<op::AttentionBackward<Tensor>>& test, const std::vector<double>& dqkv) {
  Values in = test.inputs;
  in.tensors["qkv"] = dqkv;
  return reference::evaluate<Real>(op::rotation_of(test.op, test.op.dqkv, true), in).at("qkv");
}

void measure_gradient(OpCase<op::AttentionBackward<Tensor>>& test) {
  test.op.abs_max = shape_only(DType::kF32, {1});
  test.inputs.tensors["abs_max"] = {0};
}

TEST(AttentionBackward, OnHopperGradientsThatAreRotatedBackKeepTheErrorRule) {
  Backend* backend = hopper_backend(true);
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const int dim : {64, 96, 128}) {
    const GpuAttentionCase cases[] = {
        {.heads = 6, .kv_heads = 2, .dim = dim, .window = 70, .lengths = {1, 127, 300}, .tail_rows = 9},
        {.heads = 7, .kv_heads = 1, .dim = dim, .lengths = {257, 257}, .off_heads = {2}}};
    for (const GpuAttentionCase& c : cases) {
      const auto plain_case = attention_backward_case(*backend, c, 2);
      const std::vector<double> truth = attention_gradient_truth(c, plain_case.inputs).at("dqkv");
      const std::vector<double> plain = attention_gradient_plain(c, plain_case.inputs).at("dqkv");
      for (const DType angles : {DType::kF32, DType::kBF16, DType::kF16}) {
        auto test = plain_case;
        add_angles(test, angles);
        measure_gradient(test);
        std::vector<double> plain_rotated = rotated_back<float>(test, plain);
        for (double& value : plain_rotated) value = round_to(c.dtype, value);
        const Values found = execute_twice(*backend, test).outputs;
        expect_both_parts(c, found.at("dqkv"), rotated_back<double>(test, truth), plain_rotated);
        double largest = 0;
        for (const double value : found.at("dqkv")) largest = std::max(largest, std::abs(value));
        EXPECT_EQ(found.at("abs_max")[0], largest) << test.name;
      }
    }
  }
}

TEST(AttentionBackward, OtherKernelsRotateGradientsBackAsAnOpByItself) {
  const std::unique_ptr<Backend> library = make_cuda_backend({.attention = AttentionKind::kCudnn});
  for (Backend* const backend : {library.get(), &portable_backend()}) {
    for (const int dim : {64, 96, 256}) {
      // One document: cuDNN takes statistics in its own layout, which for one is ours.
      auto test = attention_backward_case(*backend, {.heads = 2, .dim = dim, .lengths = {450}}, 2);
      add_angles(test, DType::kF32);
      measure_gradient(test);
      const Execution found = execute(*backend, test);
      const Execution expected = execute_before_rope(*backend, test);
      EXPECT_EQ(found.bytes.at("dqkv"), expected.bytes.at("qkv")) << test.name;
      EXPECT_EQ(found.outputs.at("abs_max"), expected.outputs.at("abs_max")) << test.name;
    }
  }
}

TEST(AttentionBackward, OnHopperKeepsTheErrorRuleInFreeOrder) {
  expect_error_rule(false);
}

// More blocks than multiprocessors, so that blocks start while others wait for their turn.
TEST(AttentionBackward, OnHopperGivesTheSameBitsInFiftyRuns) {
  Backend* backend = hopper_backend(true);
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const int dim : {64, 96, 128}) {
    const GpuAttentionCase c{.heads = 24, .kv_heads = 8, .dim = dim, .lengths = {1400, 1400}};
    auto test = attention_backward_shapes(*backend, c, 3);
    fill_at_random(test, 7);
    CaseMemory memory(*backend, test.inputs, test.aliases);
    const auto bound = test.op.map(memory);
    backend->prepare(bound);
    std::vector<std::byte> bytes(static_cast<size_t>(bound.dqkv.bytes()));
    std::vector<std::byte> first;
    for (int run = 0; run < 50; ++run) {
      backend->run(bound);
      backend->copy_to_host(bytes.data(), bound.dqkv.data, bound.dqkv.bytes());
      if (run == 0) first = bytes;
      ASSERT_EQ(bytes, first) << "run " << run << ", heads of " << dim;
    }
  }
}

TEST(AttentionBackward, OnHopperLeavesRowsOfNoDocumentZero) {
  Backend* backend = hopper_backend(true);
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const int dim : {64, 96, 128}) {
    const GpuAttentionCase none{.dim = dim, .lengths = {}, .tail_rows = 300, .spare_documents = 3};
    const Execution empty = execute(*backend, attention_backward_case(*backend, none, 1));
    for (const double value : empty.outputs.at("dqkv")) ASSERT_EQ(value, 0.0);
    const GpuAttentionCase some{.dim = dim, .lengths = {150}, .tail_rows = 250};
    const std::vector<double> dqkv = execute(*backend, attention_backward_case(*backend, some, 1)).outputs.at("dqkv");
    for (size_t i = static_cast<size_t>(150 * some.qkv_columns()); i < dqkv.size(); ++i) ASSERT_EQ(dqkv[i], 0.0);
  }
}

// report:B13
TEST(AttentionBackward, OnHopperChangingOneDocumentLeavesTheOthersBitsAlone) {
  Backend* backend = hopper_backend(true);
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  const GpuAttentionCase c{.heads = 6, .kv_heads = 2, .dim = 64, .lengths = {77, 90, 140}};
  auto test = attention_backward_case(*backend, c, 4);
  const std::vector<double> before = execute(*backend, test).outputs.at("dqkv");
  std::vector<double>& qkv = test.inputs.tensors["qkv"];
  for (size_t i = static_cast<size_t>(77 * c.qkv_columns()); i < static_cast<size_t>(167 * c.qkv_columns()); ++i) {
    qkv[i] = i % 5 == 0 ? 1e30 : -3.0 * qkv[i];
  }
  const std::vector<double> after = execute(*backend, test).outputs.at("dqkv");
  for (int64_t row = 0; row < c.rows(); ++row) {
    if (row >= 77 && row < 167) continue;
    for (int64_t column = 0; column < c.qkv_columns(); ++column) {
      const auto i = static_cast<size_t>(row * c.qkv_columns() + column);
      ASSERT_EQ(before[i], after[i]) << "row " << row << ", column " << column;
    }
  }
}

}  // namespace
}  // namespace litespark::test
