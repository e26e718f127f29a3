// SPDX-License-Identifier: Apache-2.0
// The tile kernels with bf16 operands in pairs, as AVX512_BF16 wants them, over plain vectors: layouts, blocks of every
// width and masks are tested on any processor; only the instructions themselves are not.
#include <cstring>

#include "ops/attention_cases.h"
#include "ops/cpu/attention_backward_tile.h"
#include "ops/cpu/attention_scratch.h"
#include "ops/cpu/vec16_generic.h"
#include "ops/cpu_conformance.h"
#include "support/pair_math.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

using cpu::generic::Vec16;

/// F32 operands in blocks as wide as those of AVX-512.
using WideMath = cpu::F32Math<Vec16, 4>;

/// A tensor's memory for kernels called by hand, with room behind it that must stay as it is.
struct Memory {
  explicit Memory(DType type, std::span<const double> values) : dtype(type), bytes(encode(type, values)) {
    bytes.resize(bytes.size() + 64, std::byte{0x5a});
  }
  std::vector<double> values() const { return decode(dtype, std::span(bytes).first(bytes.size() - 64)); }
  bool guard_holds() const {
    return std::all_of(bytes.end() - 64, bytes.end(), [](std::byte byte) { return byte == std::byte{0x5a}; });
  }
  template <class T>
  T* at(int64_t element) {
    return reinterpret_cast<T*>(bytes.data()) + element;
  }
  DType dtype;
  std::vector<std::byte> bytes;
};

std::vector<float> slopes_of(const AttentionCase& c) {
  std::vector<float> slopes;
  for (int head = 0; c.has_alibi && head < c.heads; ++head) slopes.push_back(op::alibi_slope(head, c.heads));
  return slopes;
}

/// One document, one key head; Value is the tensors' type.
template <class Math, class Value>
std::vector<double> run_forward(const AttentionCase& c, const Values& inputs) {
  const int64_t length = c.rows();
  Memory qkv(c.dtype, inputs.at("qkv"));
  Memory out(c.dtype, std::vector<double>(static_cast<size_t>(length * c.out_columns()), -1.0));
  std::vector<float> log_sum_exp(static_cast<size_t>(c.heads * length));
  const std::vector<float> slopes = slopes_of(c);
  cpu::AttentionForwardTask task{.head = {.dim = c.dim,
                                          .padded_dim = static_cast<int>(round_up(c.dim, cpu::kAttentionDimStep)),
                                          .window = c.window,
                                          .scale = c.shape().scale},
                                 .queries = {qkv.at<Value>(0), c.qkv_columns()},
                                 .keys = {qkv.at<Value>(c.out_columns()), c.qkv_columns()},
                                 .values = {qkv.at<Value>(c.out_columns() + c.dim), c.qkv_columns()},
                                 .out = {out.at<Value>(0), c.out_columns()},
                                 .log_sum_exp = log_sum_exp.data(),
                                 .log_sum_exp_stride = length,
                                 .slopes = slopes.empty() ? nullptr : slopes.data(),
                                 .num_queries = length,
                                 .group = c.heads};
  const cpu::AttentionKernels kernels{.bf16_elements = Math::kPair == 2};
  cpu::ScratchCursor counted;
  cpu::take_forward_buffers(counted, kernels, task);
  const cpu::Scratch scratch("test", {}, counted.used());
  std::memset(scratch.data(), 0xff, static_cast<size_t>(counted.used()));
  cpu::ScratchCursor cursor(scratch.data());
  cpu::take_forward_buffers(cursor, kernels, task);
  cpu::attention_forward<Math, Value>(task);
  EXPECT_TRUE(out.guard_holds());
  return out.values();
}

template <class Math, class Value>
std::vector<double> run_backward(const AttentionCase& c, const Values& inputs) {
  Memory qkv(c.dtype, inputs.at("qkv"));
  Memory out(c.dtype, inputs.at("out"));
  Memory dout(c.dtype, inputs.at("dout"));
  Memory log_sum_exp(DType::kF32, inputs.at("log_sum_exp"));
  Memory dqkv(c.dtype, std::vector<double>(inputs.at("qkv").size(), -1.0));
  const int64_t stride = c.qkv_columns();
  const int64_t keys = c.out_columns();
  const std::vector<float> slopes = slopes_of(c);
  cpu::AttentionBackwardTask task{.head = {.dim = c.dim,
                                           .padded_dim = static_cast<int>(round_up(c.dim, cpu::kAttentionDimStep)),
                                           .window = c.window,
                                           .scale = c.shape().scale},
                                  .queries = {qkv.at<Value>(0), stride},
                                  .keys = {qkv.at<Value>(keys), stride},
                                  .values = {qkv.at<Value>(keys + c.dim), stride},
                                  .out = {out.at<Value>(0), keys},
                                  .dout = {dout.at<Value>(0), keys},
                                  .dkeys = {dqkv.at<Value>(keys), stride},
                                  .dvalues = {dqkv.at<Value>(keys + c.dim), stride},
                                  .dqueries = {dqkv.at<Value>(0), stride},
                                  .log_sum_exp = log_sum_exp.at<float>(0),
                                  .log_sum_exp_stride = c.rows(),
                                  .slopes = slopes.empty() ? nullptr : slopes.data(),
                                  .length = c.rows(),
                                  .key_end = c.rows(),
                                  .query_end = c.rows(),
                                  .group = c.heads};
  const cpu::AttentionKernels kernels{.bf16_elements = Math::kPair == 2};
  const int64_t num_keys = round_up(c.rows(), cpu::kAttentionTile);
  cpu::ScratchCursor counted;
  cpu::take_backward_buffers(counted, kernels, num_keys, task);
  const cpu::Scratch scratch("test", {}, counted.used());
  std::memset(scratch.data(), 0xff, static_cast<size_t>(counted.used()));
  cpu::ScratchCursor cursor(scratch.data());
  cpu::take_backward_buffers(cursor, kernels, num_keys, task);
  cpu::attention_backward<Math, Value>(task);
  EXPECT_TRUE(dqkv.guard_holds());
  return dqkv.values();
}

std::vector<AttentionCase> single_documents(DType dtype) {
  std::vector<AttentionCase> cases = {{.heads = 2, .kv_heads = 1, .dim = 40, .lengths = {150}},
                                      {.heads = 1, .kv_heads = 1, .dim = 7, .lengths = {64}},
                                      {.heads = 2, .kv_heads = 1, .dim = 33, .lengths = {1}},
                                      {.heads = 1, .kv_heads = 1, .dim = 64, .window = 70, .lengths = {257}},
                                      {.heads = 1, .kv_heads = 1, .dim = 112, .lengths = {97}},
                                      {.heads = 3, .kv_heads = 1, .dim = 40, .lengths = {100}, .has_alibi = true}};
  for (AttentionCase& c : cases) c.dtype = dtype;
  return cases;
}

Execution execution_of(const std::string& name, DType dtype, const std::vector<double>& values) {
  Execution execution;
  execution.outputs.tensors[name] = values;
  execution.dtypes[name] = dtype;
  return execution;
}

Values only(const std::string& name, const Values& values) {
  return {.tensors = {{name, values.at(name)}}, .state = {}};
}

/// Weights and score gradients are rounded to bf16 as well as the results: allows for that beside the rule's 1.5x.
void expect_two_roundings(const std::string& what, const std::vector<double>& actual,
                          const std::vector<double>& truth) {
  const ErrorStats stats = compare(actual, truth);
  EXPECT_EQ(stats.kind_mismatches, 0) << what;
  EXPECT_LT(stats.max_abs, 4 * 0x1p-8 * std::max(1.0, stats.largest_expected)) << what << ": " << stats.to_string();
  EXPECT_LT(stats.rms, 0x1p-8) << what << ": " << stats.to_string();
}

TEST(AttentionTile, WideBlocksKeepTheErrorRule) {
  for (const AttentionCase& c : single_documents(DType::kF32)) {
    const auto forward = c.forward(1);
    expect_kernel_rule(c.name(), execution_of("out", c.dtype, run_forward<WideMath, float>(c, forward.inputs)),
                       only("out", reference::evaluate<double>(forward.op, forward.inputs)),
                       reference::evaluate<float>(forward.op, forward.inputs));
    const auto backward = c.backward(2);
    expect_kernel_rule(c.name(), execution_of("dqkv", c.dtype, run_backward<WideMath, float>(c, backward.inputs)),
                       reference::evaluate<double>(backward.op, backward.inputs),
                       reference::evaluate<float>(backward.op, backward.inputs));
  }
}

TEST(AttentionTile, WholeTilesOfAMatrixUnitAreRightWithinTheirRounding) {
  for (const AttentionCase& c : single_documents(DType::kBF16)) {
    const auto forward = c.forward(5);
    expect_two_roundings(c.name(), run_forward<PlainTileMath<Vec16>, bf16>(c, forward.inputs),
                         reference::evaluate<double>(forward.op, forward.inputs).at("out"));
    const auto backward = c.backward(6);
    expect_two_roundings(c.name(), run_backward<PlainTileMath<Vec16>, bf16>(c, backward.inputs),
                         reference::evaluate<double>(backward.op, backward.inputs).at("dqkv"));
  }
}

TEST(AttentionTile, PairsOfBf16AreRightWithinTheirRounding) {
  for (const AttentionCase& c : single_documents(DType::kBF16)) {
    const auto forward = c.forward(3);
    expect_two_roundings(c.name(), run_forward<PairMath<Vec16>, bf16>(c, forward.inputs),
                         reference::evaluate<double>(forward.op, forward.inputs).at("out"));
    const auto backward = c.backward(4);
    expect_two_roundings(c.name(), run_backward<PairMath<Vec16>, bf16>(c, backward.inputs),
                         reference::evaluate<double>(backward.op, backward.inputs).at("dqkv"));
  }
}

}  // namespace
}  // namespace litespark::test
