// SPDX-License-Identifier: Apache-2.0
// The Hopper attention forward on 8-bit floats, its own source on the CPU: tiles of codes through the swizzle, scores
// that become the operand of the second product in their registers, values whose keys stand in another order.
#include <gtest/gtest.h>

#include "attention_ops.h"
#include "block.h"
#include "ops/attention_fp8_cases.h"
#include "ops/attention_statistics.h"
#include "ops/cuda/device/quantize_qkv.cuh"

namespace litespark::test {
namespace {

/// What sums in f32, and exponentials, are off by.
constexpr double kSums = 1e-5;

/// The kernels leave what belongs to heads that are off to their caller.
Values run(const AttentionCase& c, const OpCase<op::AttentionForwardFp8<Tensor>>& test) {
  Values found = cuda::run_hopper(test);
  cuda::clear_off_heads(c, c.out_columns(), found.tensors["out"]);
  for (const int head : c.off_heads) {
    std::fill_n(found.tensors["log_sum_exp"].begin() + head * c.rows(), c.rows(), 0.0);
  }
  return found;
}

/// Codes of values and of queries and keys by the kernel's source, block by block.
Execution run_quantize(const OpCase<op::QuantizeQkv<Tensor>>& test) {
  Execution result;
  std::vector<std::byte> qkv = encode(DType::kBF16, test.inputs.at("qkv"));
  const auto abs_max = static_cast<float>(test.inputs.at("abs_max")[0]);
  const auto room = [&](const char* name, const Tensor& tensor) {
    std::vector<std::byte>& bytes = result.bytes[name];
    bytes.resize(static_cast<size_t>(tensor.bytes()), std::byte{0xff});
    return reinterpret_cast<uint8_t*>(bytes.data());
  };
  StepState& state = result.outputs.state;
  const Tensor state_tensor{.data = &state, .dtype = DType::kU8, .shape = state_shape().shape};
  float scale = 0;
  const cuda::QuantizeQkvArgs<bf16> args{.qkv = reinterpret_cast<const bf16*>(qkv.data()),
                                         .queries_keys = room("queries_keys", test.op.queries_keys),
                                         .values = room("values", test.op.values),
                                         .abs_max = &abs_max,
                                         .scale = &scale,
                                         .counters = cuda::fp8_counters(state_tensor, op::Fp8Kind::kInput),
                                         .rows = test.op.qkv.rows(),
                                         .columns = test.op.qkv.columns(),
                                         .row_features = test.op.queries_keys.columns(),
                                         .value_columns = test.op.values.columns()};
  for (int64_t block = 0; block < cuda::fp8_tiles(args.rows, args.columns); ++block) {
    blockIdx = {.x = static_cast<unsigned>(block)};
    const std::string failure = emulated::run_block(cuda::kFp8TileThreads, static_cast<unsigned>(block), [&] {
      cuda::quantize_qkv_tile(args, *reinterpret_cast<cuda::QuantizeQkvShared*>(emulated::shared_memory()));
    });
    EXPECT_EQ(failure, "");
  }
  result.outputs.tensors["scale"] = {static_cast<double>(scale)};
  return result;
}

TEST(EmulatedAttentionFp8, CopiesHoldTheNearestCodesInTheirOrder) {
  for (AttentionCase c : fp8_attention_cases()) {
    for (const int dim : {128, 64, 48}) {  // of the last, tiles have both keys and values
      c.dim = dim;
      const auto test = quantize_qkv_case(c, c.inputs(3).at("qkv"));
      expect_quantized_qkv(test, run_quantize(test));
    }
  }
}

TEST(EmulatedAttentionFp8, WholeScoresAndValuesGiveWhatTheyShould) {
  for (const AttentionCase& c : fp8_attention_cases()) {
    const auto test = whole_fp8_case(c, 5);
    expect_whole_fp8(test, run(c, test), kSums);
  }
}

TEST(EmulatedAttentionFp8, AnyValuesAreOffByRoundedProbabilitiesAlone) {
  for (const AttentionCase& c : fp8_attention_cases()) {
    const auto test = fp8_forward_case(c, 7);
    expect_near_fp8(test, run(c, test), kSums);
  }
}

TEST(EmulatedAttentionFp8, MaximaThatGrowRescaleEarlierSums) {
  const AttentionCase c{.heads = 2, .dim = 128, .lengths = {5, 420}, .dtype = DType::kBF16, .magnitude = 6};
  const auto test = fp8_forward_case(c, 2);
  expect_near_fp8(test, run(c, test), kSums);
}

TEST(EmulatedAttentionFp8, TheLargestMagnitudeOfTheOutputIsLeft) {
  auto test = fp8_forward_case(fp8_attention_cases()[1], 8);
  test.op.abs_max = shape_only(DType::kF32, {1});
  test.inputs.tensors["abs_max"] = {0};
  const Values found = cuda::run_hopper(test);
  double largest = 0;
  for (const double value : found.at("out")) largest = std::max(largest, std::abs(value));
  EXPECT_EQ(found.at("abs_max")[0], largest);
}

TEST(EmulatedAttentionFp8, TheBackwardReadsTheStatisticsWhereTheForwardLeavesThem) {
  for (const int length : {128, 150}) {
    const AttentionCase c{.heads = 2, .kv_heads = 1, .dim = 128, .lengths = {length, length}, .dtype = DType::kBF16};
    const auto forward = fp8_forward_case(c, unlike_heads(c, 11));
    const Values found = cuda::run_hopper(forward);
    const Values moved = cuda::run_hopper_by_document(forward);
    EXPECT_EQ(moved.at("out"), found.at("out"));
    EXPECT_EQ(moved.at("log_sum_exp"), statistics_by_document(found.at("log_sum_exp"), c));
    auto backward = c.backward(11);
    backward.inputs.tensors["qkv"] = unlike_heads(c, 11);
    backward.inputs.tensors["out"] = found.at("out");
    backward.inputs.tensors["log_sum_exp"] = found.at("log_sum_exp");
    const std::vector<double> gradient = cuda::run_hopper(backward).at("dqkv");
    const std::vector<double> truth = reference::evaluate<double>(backward.op, backward.inputs).at("dqkv");
    EXPECT_LT(relative_difference(gradient, truth), 0.02);
    backward.inputs.tensors["log_sum_exp"] = moved.at("log_sum_exp");
    EXPECT_EQ(cuda::run_hopper_by_document(backward).at("dqkv"), gradient);
    // The test would see another order.
    EXPECT_GT(relative_difference(cuda::run_hopper(backward).at("dqkv"), truth), 0.3);
  }
}

}  // namespace
}  // namespace litespark::test
