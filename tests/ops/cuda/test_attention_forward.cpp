// SPDX-License-Identifier: Apache-2.0
// The tensor-core forward: the kernel error rule for every head size, window and packing; rows of no document are zero.
#include <cmath>

#include "ops/cuda/attention_cases.h"

namespace litespark::test {
namespace {

TEST(AttentionForward, KeepsTheErrorRule) {
  for (const GpuAttentionCase& c : gpu_attention_cases(DType::kBF16)) {
    const auto test = attention_forward_case(portable_backend(), c, 1);
    Values truth = attention_truth(c, test.inputs);
    const Execution execution = execute_twice(portable_backend(), test);
    expect_statistics(test.name, execution.outputs.at("log_sum_exp"), truth.at("log_sum_exp"), 4e-6);
    truth.tensors.erase("log_sum_exp");
    expect_kernel_rule(test.name, execution, truth, attention_plain(c, test.inputs));
  }
}

TEST(AttentionForward, NoDocumentsGiveZeros) {
  const GpuAttentionCase c{.dim = 64, .lengths = {}, .tail_rows = 70, .spare_documents = 3};
  const Execution execution = execute(portable_backend(), attention_forward_case(portable_backend(), c, 1));
  for (const double value : execution.outputs.at("out")) ASSERT_EQ(value, 0.0);
  for (const double value : execution.outputs.at("log_sum_exp")) ASSERT_EQ(value, 0.0);
}

// report:B13
TEST(AttentionForward, ChangingOneDocumentLeavesTheOthersBitsAlone) {
  const GpuAttentionCase c{.heads = 6, .kv_heads = 2, .dim = 64, .lengths = {77, 90, 40}};
  auto test = attention_forward_case(portable_backend(), c, 4);
  const std::vector<double> before = execute(portable_backend(), test).outputs.at("out");
  std::vector<double>& qkv = test.inputs.tensors["qkv"];
  for (size_t i = static_cast<size_t>(77 * c.qkv_columns()); i < static_cast<size_t>(167 * c.qkv_columns()); ++i) {
    qkv[i] = i % 5 == 0 ? 1e30 : -3.0 * qkv[i];
  }
  const std::vector<double> after = execute(portable_backend(), test).outputs.at("out");
  for (int64_t row = 0; row < c.rows(); ++row) {
    if (row >= 77 && row < 167) continue;
    for (int64_t column = 0; column < c.out_columns(); ++column) {
      const auto i = static_cast<size_t>(row * c.out_columns() + column);
      ASSERT_EQ(before[i], after[i]) << "row " << row;
    }
  }
}

/// Prefers the Hopper kernels; nullptr on another part.
Backend* hopper_backend() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend({.attention = AttentionKind::kHopper});
  return backend->name().find("sm_90") == std::string::npos ? nullptr : backend.get();
}

/// Around the tiles of 80 to 192 and its pipeline of two stages, whole and cut by a window.
std::vector<GpuAttentionCase> hopper_cases() {
  std::vector<GpuAttentionCase> cases;
  for (const int dim : {64, 96, 128, 256}) {
    for (const int window : {0, 70, 128, 200}) {
      cases.push_back({.heads = 6, .kv_heads = 2, .dim = dim, .window = window, .lengths = {1, 127, 128, 129, 300}});
      cases.push_back({.heads = 2, .kv_heads = 2, .dim = dim, .window = window, .lengths = {257, 257}});
      cases.push_back({.heads = 1, .kv_heads = 1, .dim = dim, .window = window, .lengths = {640}, .tail_rows = 140});
    }
    cases.push_back({.heads = 2, .kv_heads = 1, .dim = dim, .lengths = {200}, .tail_rows = 1, .magnitude = 8});
    cases.push_back({.heads = 6, .kv_heads = 2, .dim = dim, .lengths = {129, 300}, .off_heads = {0, 3, 4, 5}});
    cases.push_back({.heads = 8, .kv_heads = 4, .dim = dim, .window = 70, .lengths = {640}, .off_heads = {1, 2, 7}});
  }
  return cases;
}

TEST(AttentionForward, OnHopperKeepsTheErrorRule) {
  Backend* backend = hopper_backend();
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const GpuAttentionCase& c : hopper_cases()) {
    const auto test = attention_forward_case(*backend, c, 1);
    Values truth = attention_truth(c, test.inputs);
    const Execution execution = execute_twice(*backend, test);
    // A backward of cuDNN's makes the forward write its layout of the statistics, so they are compared where both
    // agree.
    if (c.lengths.size() == 1 || !c.shape().uniform) {
      expect_statistics(test.name, execution.outputs.at("log_sum_exp"), truth.at("log_sum_exp"), 4e-6);
    }
    truth.tensors.erase("log_sum_exp");
    expect_kernel_rule(test.name, execution, truth, attention_plain(c, test.inputs));
  }
  bool ran = false;
  for (const auto& [key, choice] : backend->tuning()) ran |= choice == "hopper";
  EXPECT_TRUE(ran);
}

/// Bits of the output and the statistics, and an untouched qkv, which execute() holds to what it was.
void expect_bits_of_rope(Backend& backend, const OpCase<op::AttentionForward<Tensor>>& test) {
  const Execution found = execute(backend, test);
  const Execution expected = execute_after_rope(backend, test);
  for (const char* const name : {"out", "log_sum_exp"}) {
    EXPECT_EQ(found.bytes.at(name), expected.bytes.at(name)) << test.name << ": " << name;
  }
}

TEST(AttentionForward, RotatedOnLoadHasTheBitsOfRopeAndThePlainForward) {
  Backend* backend = hopper_backend();
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const GpuAttentionCase& c : hopper_cases()) {
    for (const DType angles : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto test = rotated_on_load(attention_forward_case(*backend, c, 1), angles);
      expect_bits_of_rope(*backend, test);
    }
  }
  const auto longer = attention_forward_case(
      *backend, {.heads = 6, .kv_heads = 2, .dim = 128, .lengths = {2000, 1, 700, 3000}, .tail_rows = 9}, 1);
  for (int i = 0; i < 5; ++i) expect_bits_of_rope(*backend, rotated_on_load(longer, DType::kF32));
}

TEST(AttentionForward, RotatedOnLoadLeavesTheRotatedCopyAlone) {
  Backend* backend = hopper_backend();
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const int dim : {64, 96, 128}) {
    const auto test =
        rotated_on_load(attention_forward_case(*backend, {.dim = dim, .lengths = {70, 9}}, 1), DType::kF32);
    const std::vector<double> rotated = execute(*backend, test).outputs.at("rotated");
    EXPECT_EQ(std::isnan(rotated[0]), dim != 96) << test.name;
  }
}

TEST(AttentionForward, OtherKernelsRotateACopy) {
  for (const GpuAttentionCase& c : {GpuAttentionCase{.heads = 2, .dim = 32, .lengths = {70, 9}, .tail_rows = 2},
                                    GpuAttentionCase{.dim = 128, .window = 40, .lengths = {150}}}) {
    expect_bits_of_rope(portable_backend(),
                        rotated_on_load(attention_forward_case(portable_backend(), c, 1), DType::kBF16));
  }
}

}  // namespace
}  // namespace litespark::test
