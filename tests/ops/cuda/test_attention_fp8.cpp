// SPDX-License-Identifier: Apache-2.0
// Attention's forward on 8-bit floats on a Hopper GPU: codes and counts by search, results within what rounded
// probabilities explain, the same bits twice.
#include "core/error.h"
#include "ops/attention_fp8_cases.h"
#include "ops/attention_statistics.h"
#include "ops/cuda/attention_cases.h"
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

/// What sums in the tensor cores' accumulators for 8-bit operands, and approximate exponentials, may be off by.
constexpr double kSums = 0x1p-9;

/// Both directions by Hopper kernels, so that the statistics lie as the op says; nullptr on another part.
Backend* attention_fp8_backend() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend({.attention = AttentionKind::kHopper});
  return backend->name().find("sm_90") == std::string::npos ? nullptr : backend.get();
}

/// Around the tiles of 128, the pipeline of four stages and groups of 16 rows, whole and cut by a window.
std::vector<AttentionCase> gpu_fp8_cases() {
  std::vector<AttentionCase> cases = fp8_attention_cases();
  for (const int window : {0, 70, 128, 200}) {
    cases.push_back({.heads = 6,
                     .kv_heads = 2,
                     .dim = 128,
                     .window = window,
                     .lengths = {1, 127, 128, 129, 300},
                     .dtype = DType::kBF16});
    cases.push_back({.heads = 2, .dim = 128, .window = window, .lengths = {257, 257}, .dtype = DType::kBF16});
    cases.push_back({.dim = 128, .window = window, .lengths = {1100}, .tail_rows = 140, .dtype = DType::kBF16});
  }
  cases.push_back({.heads = 24, .kv_heads = 8, .dim = 128, .lengths = {700, 700, 700}, .dtype = DType::kBF16});
  cases.push_back(
      {.heads = 2, .dim = 128, .lengths = {}, .tail_rows = 70, .spare_documents = 2, .dtype = DType::kBF16});
  return cases;
}

TEST(AttentionFp8, CopiesHoldTheNearestCodesInTheirOrder) {
  for (AttentionCase c : gpu_fp8_cases()) {
    for (const int dim : {128, 64, 48}) {  // of the last, tiles have both keys and values
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        c.dim = dim;
        c.dtype = dtype;
        const auto test = quantize_qkv_case(c, c.inputs(3).at("qkv"));
        expect_quantized_qkv(test, execute_on_cuda(test));
      }
    }
  }
}

TEST(AttentionFp8, AnInfinityIsCountedAndMakesAllNan) {
  const AttentionCase c{.dim = 128, .lengths = {150}, .dtype = DType::kBF16};
  std::vector<double> qkv = c.inputs(1).at("qkv");
  qkv[1000] = static_cast<double>(INFINITY);
  const auto quantize = quantize_qkv_case(c, qkv);
  const Execution copies = execute_on_cuda(quantize);
  EXPECT_EQ(copies.outputs.state.fp8_overflows, 1);
  EXPECT_TRUE(std::isnan(copies.outputs.at("scale")[0]));
  Backend* backend = attention_fp8_backend();
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  auto test = fp8_forward_case(c, 1);
  test.inputs.tensors["scale"] = {static_cast<double>(NAN)};
  const Execution execution = execute_on_cuda(test, *backend);
  for (const double value : execution.outputs.at("out")) ASSERT_TRUE(std::isnan(value));
}

TEST(AttentionFp8, WholeScoresAndValuesGiveWhatTheyShould) {
  Backend* backend = attention_fp8_backend();
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const AttentionCase& c : gpu_fp8_cases()) {
    const auto test = whole_fp8_case(c, 5);
    expect_whole_fp8(test, execute_on_cuda(test, *backend).outputs, kSums);
  }
}

TEST(AttentionFp8, AnyValuesAreOffByRoundedProbabilitiesAlone) {
  Backend* backend = attention_fp8_backend();
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  for (const AttentionCase& c : gpu_fp8_cases()) {
    for (const double magnitude : {1.0, 6.0}) {
      AttentionCase scaled = c;
      scaled.magnitude = magnitude;
      const auto test = fp8_forward_case(scaled, 7);
      expect_near_fp8(test, execute_on_cuda(test, *backend).outputs, kSums);
    }
  }
}

TEST(AttentionFp8, TheLargestMagnitudeOfTheOutputIsLeft) {
  Backend* backend = attention_fp8_backend();
  if (backend == nullptr) GTEST_SKIP() << "no Hopper part here";
  auto test = fp8_forward_case(fp8_attention_cases()[1], 8);
  test.op.abs_max = shape_only(DType::kF32, {1});
  test.inputs.tensors["abs_max"] = {0};
  const Execution execution = execute_on_cuda(test, *backend);
  double largest = 0;
  for (const double value : execution.outputs.at("out")) largest = std::max(largest, std::abs(value));
  EXPECT_EQ(execution.outputs.at("abs_max")[0], largest);
}

/// What the backend names for an op whose name begins so; "" for none.
std::string named_choice(const Backend& backend, const std::string& opening) {
  for (const auto& [key, choice] : backend.tuning()) {
    if (key.starts_with(opening)) return choice;
  }
  return "";
}

TEST(AttentionFp8, IsNamedAsWhatRunsAndNoForwardInBf16Is) {
  if (attention_fp8_backend() == nullptr) GTEST_SKIP() << "no Hopper part here";
  const auto backend = make_cuda_backend({});
  const AttentionCase c{.heads = 2, .dim = 128, .lengths = {64, 64}, .dtype = DType::kBF16};
  execute(*backend, fp8_forward_case(c, 3));
  EXPECT_EQ(named_choice(*backend, "attention_forward_fp8 n=128 "), "hopper");
  EXPECT_EQ(named_choice(*backend, "attention_forward n="), "");
}

std::unique_ptr<Backend> backend_of(AttentionKind kind) {
  try {
    return make_cuda_backend({.attention = kind});
  } catch (const ConfigError&) {
    return nullptr;  // without cuDNN there is none of its kind
  }
}

// Of short documents cuDNN's forward in bf16 is the faster one, and its statistics lie by document: the forward on
// 8-bit floats leaves them there too, whichever backward comes.
TEST(AttentionFp8, TheBackwardReadsTheStatisticsWhereTheForwardLeavesThem) {
  if (attention_fp8_backend() == nullptr) GTEST_SKIP() << "no Hopper part here";
  const GpuAttentionCase c{.heads = 2, .kv_heads = 1, .dim = 128, .lengths = {1024, 1024}};
  const AttentionCase same{.heads = 2, .kv_heads = 1, .dim = 128, .lengths = {1024, 1024}, .dtype = DType::kBF16};
  const auto forward = fp8_forward_case(same, unlike_heads(same, 11));
  const std::vector<double> by_head = reference::evaluate<double>(forward.op, forward.inputs).at("log_sum_exp");
  for (const AttentionKind kind : {AttentionKind::kAuto, AttentionKind::kCudnn, AttentionKind::kHopper}) {
    const auto backend = backend_of(kind);
    if (backend == nullptr) continue;
    const Execution found = execute_on_cuda(forward, *backend);
    auto backward = attention_backward_shapes(*backend, c, 11);
    backward.inputs.tensors["qkv"] = unlike_heads(same, 11);
    backward.inputs.tensors["out"] = found.outputs.at("out");
    backward.inputs.tensors["log_sum_exp"] = found.outputs.at("log_sum_exp");
    backward.inputs.tensors["dout"] = random_normal(DType::kBF16, c.rows() * c.out_columns(), 12);
    const Execution gradient = execute_on_cuda(backward, *backend);
    // So that the choice which decides the layout is named.
    execute(*backend, attention_forward_case(*backend, c, 11));
    const bool is_by_document = named_choice(*backend, "attention_forward n=").starts_with("cudnn") ||
                                named_choice(*backend, "attention_backward n=").starts_with("cudnn");
    SCOPED_TRACE(is_by_document ? "by document" : "by head");
    const std::vector<double> expected = is_by_document ? statistics_by_document(by_head, c) : by_head;
    expect_statistics(c.name(), found.outputs.at("log_sum_exp"), expected, 0.02);
    backward.inputs.tensors["log_sum_exp"] = by_head;
    const std::vector<double> truth = attention_gradient_truth(c, backward.inputs).at("dqkv");
    EXPECT_LT(relative_difference(gradient.outputs.at("dqkv"), truth), 0.05);
    // What the other layout would give.
    backward.inputs.tensors["log_sum_exp"] = statistics_by_document(by_head, c);
    EXPECT_GT(relative_difference(attention_gradient_truth(c, backward.inputs).at("dqkv"), truth), 0.5);
  }
}

TEST(AttentionFp8, OtherHeadsThanThoseOf128AreRefused) {
  const AttentionCase c{.dim = 64, .lengths = {20}, .dtype = DType::kBF16};
  EXPECT_EQ(cuda_backend().sizes().fp8_attention_support(c.shape()), Fp8Support::kNone);
  EXPECT_THROW(execute(cuda_backend(), fp8_forward_case(c, 1)), InternalError);
}

}  // namespace
}  // namespace litespark::test
