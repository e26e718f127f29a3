// SPDX-License-Identifier: Apache-2.0
// Cases of attention's forward on 8-bit floats for the tests of every backend, and how far a result may be from what
// the codes give without rounded probabilities.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/attention_cases.h"
#include "reference/attention_fp8.h"

namespace litespark::test {

inline OpCase<op::QuantizeQkv<Tensor>> quantize_qkv_case(const AttentionCase& c, const std::vector<double>& qkv) {
  OpCase<op::QuantizeQkv<Tensor>> test{
      .name = c.name(),
      .op = {.queries_keys = shape_only(DType::kE4M3, {c.rows(), int64_t{c.heads + c.kv_heads} * c.dim}),
             .values = shape_only(DType::kE4M3, {int64_t{c.kv_heads} * c.dim, (c.rows() + 15) / 16 * 16}),
             .scale = shape_only(DType::kF32, {1}),
             .qkv = shape_only(c.dtype, {c.rows(), c.qkv_columns()}),
             .abs_max = shape_only(DType::kF32, {1}),
             .state = state_shape(),
             .num_heads = c.heads,
             .num_kv_heads = c.kv_heads,
             .head_dim = c.dim},
      .inputs = {.tensors = {{"qkv", qkv}}, .state = {}}};
  double largest = 0;
  for (const double value : qkv) largest = std::max(largest, std::abs(value));
  test.inputs.tensors["abs_max"] = {largest};
  return test;
}

/// Codes are exact, and so are the counts of what became 0.
inline void expect_quantized_qkv(const OpCase<op::QuantizeQkv<Tensor>>& test, const Execution& execution) {
  const reference::QuantizedQkv expected = reference::quantized_qkv(test.op, test.inputs);
  EXPECT_EQ(execution.bytes.at("queries_keys"), expected.queries_keys) << test.name;
  EXPECT_EQ(execution.bytes.at("values"), expected.values) << test.name;
  EXPECT_EQ(execution.outputs.at("scale")[0], expected.scale) << test.name;
  EXPECT_EQ(execution.outputs.state.fp8_inputs, static_cast<int64_t>(test.inputs.at("qkv").size())) << test.name;
  EXPECT_EQ(execution.outputs.state.fp8_inputs_flushed, expected.flushed) << test.name;
  EXPECT_EQ(execution.outputs.state.fp8_overflows, 0) << test.name;
}

/// Of the codes that `qkv` is brought to.
inline OpCase<op::AttentionForwardFp8<Tensor>> fp8_forward_case(const AttentionCase& c,
                                                                const std::vector<double>& qkv) {
  const auto quantize = quantize_qkv_case(c, qkv);
  const reference::QuantizedQkv copies = reference::quantized_qkv(quantize.op, quantize.inputs);
  const Values documents = c.inputs(1);
  return {.name = c.name(),
          .op = {.out = shape_only(c.dtype, {c.rows(), c.out_columns()}),
                 .log_sum_exp = shape_only(DType::kF32, {c.heads, c.rows()}),
                 .queries_keys = quantize.op.queries_keys,
                 .values = quantize.op.values,
                 .scale = shape_only(DType::kF32, {1}),
                 .offsets = shape_only(DType::kI32, {c.shape().max_documents + 1}),
                 .num_documents = shape_only(DType::kI32, {1}),
                 .abs_max = {},
                 .shape = c.shape()},
          .inputs = {.tensors = {{"queries_keys", decode(DType::kE4M3, copies.queries_keys)},
                                 {"values", decode(DType::kE4M3, copies.values)},
                                 {"scale", {copies.scale}},
                                 {"offsets", documents.at("offsets")},
                                 {"num_documents", documents.at("num_documents")}},
                     .state = {}}};
}
inline OpCase<op::AttentionForwardFp8<Tensor>> fp8_forward_case(const AttentionCase& c, uint64_t seed) {
  return fp8_forward_case(c, c.inputs(seed).at("qkv"));
}

/// Each head's queries are twice as large as those of the one before, so that statistics in another order are far off.
inline std::vector<double> unlike_heads(const AttentionCase& c, uint64_t seed) {
  std::vector<double> qkv = c.inputs(seed).at("qkv");
  for (int64_t row = 0; row < c.rows(); ++row) {
    for (int64_t column = 0; column < c.out_columns(); ++column)
      qkv[static_cast<size_t>(row * c.qkv_columns() + column)] *= std::exp2(column / c.dim);
  }
  return qkv;
}

/// Root of the squares of the differences, of those of `truth`.
inline double relative_difference(const std::vector<double>& found, const std::vector<double>& truth) {
  double errors = 0;
  double squares = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    errors += (found[i] - truth[i]) * (found[i] - truth[i]);
    squares += truth[i] * truth[i];
  }
  return std::sqrt(errors / squares);
}

/// Scores that are whole powers of two apart, up to 2^12, of values that are small whole numbers: every probability is
/// a power of two that e4m3 holds, and nothing is rounded but what is written.
inline OpCase<op::AttentionForwardFp8<Tensor>> whole_fp8_case(const AttentionCase& c, uint64_t seed) {
  std::vector<double> qkv = random_integers(c.rows() * c.qkv_columns(), seed, 5);
  for (double& value : qkv) value -= 2;
  // A query is 1 or -1 in three places, which wander.
  for (int64_t row = 0; row < c.rows(); ++row) {
    for (int64_t column = 0; column < c.out_columns(); ++column) {
      const int64_t place = (column + 7 * row) % c.dim;
      double& value = qkv[static_cast<size_t>(row * c.qkv_columns() + column)];
      value = place % 43 == 0 && place < 129 ? (value < 0 ? -1 : 1) : 0;
    }
  }
  qkv[static_cast<size_t>(c.qkv_columns() - 1)] = 7;  // 448 / 7 is whole
  auto test = fp8_forward_case(c, qkv);
  test.op.shape.scale = static_cast<float>(std::log(2.0));
  return test;
}

/// `sums`: relative error of the sums of products in hand, and of exponentials.
inline void expect_whole_fp8(const OpCase<op::AttentionForwardFp8<Tensor>>& test, const Values& found, double sums) {
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  const std::vector<double> sizes = reference::evaluate<double>(test.op, test.inputs, true).at("out");
  const std::vector<double>& out = truth.at("out");
  int64_t wrong = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double allowed = 0x1p-8 * std::abs(out[i]) + sums * sizes[i];
    wrong += std::abs(found.at("out")[i] - out[i]) <= allowed ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0) << test.name << ": of " << out.size();
  for (size_t i = 0; i < truth.at("log_sum_exp").size(); ++i) {
    ASSERT_NEAR(found.at("log_sum_exp")[i], truth.at("log_sum_exp")[i], 20 * sums) << test.name << " " << i;
  }
}

/// No sum of the magnitudes that a score is added up from is larger, by Cauchy and Schwarz.
inline double largest_score_size(const OpCase<op::AttentionForwardFp8<Tensor>>& test) {
  const std::vector<double>& queries_keys = test.inputs.at("queries_keys");
  const auto dim = static_cast<size_t>(test.op.shape.head_dim);
  const size_t features = dim * static_cast<size_t>(test.op.shape.num_heads + test.op.shape.num_kv_heads);
  const size_t queries = dim * static_cast<size_t>(test.op.shape.num_heads);
  double query = 0;
  double key = 0;
  for (size_t start = 0; start < queries_keys.size(); start += dim) {
    double squares = 0;
    for (size_t i = start; i < start + dim; ++i) squares += queries_keys[i] * queries_keys[i];
    double& largest = start % features < queries ? query : key;
    largest = std::max(largest, squares);
  }
  const double scale = test.inputs.at("scale")[0];
  return std::sqrt(query * key) * scale * scale * static_cast<double>(test.op.shape.scale);
}

/// Of any values: an element is off by at most what rounding each probability to e4m3 (2^-4 of it, or 2^-16 of the
/// row's largest) and the output to bf16 explain, and all together by 3 % of their size. A log-sum-exp moves with the
/// scores, whose sums keep some bits of their largest product (13 for a `sums` of 2^-9), however small they end.
inline void expect_near_fp8(const OpCase<op::AttentionForwardFp8<Tensor>>& test, const Values& found, double sums) {
  const Values truth = reference::evaluate<double>(test.op, test.inputs);
  const std::vector<double> sizes = reference::evaluate<double>(test.op, test.inputs, true).at("out");
  const std::vector<double>& out = truth.at("out");
  double largest = 0;
  for (const double value : test.inputs.at("values")) largest = std::max(largest, std::abs(value));
  const double flushed = 0x1p-16 * test.op.shape.max_length * largest * test.inputs.at("scale")[0];
  int64_t wrong = 0;
  double errors = 0;
  double squares = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double error = std::abs(found.at("out")[i] - out[i]);
    wrong += error <= (0x1p-4 + sums) * sizes[i] + flushed + 0x1p-8 * std::abs(out[i]) ? 0 : 1;
    errors += error * error;
    squares += out[i] * out[i];
  }
  EXPECT_EQ(wrong, 0) << test.name << ": of " << out.size();
  EXPECT_LE(std::sqrt(errors), 0.03 * std::sqrt(squares)) << test.name;
  const double score_error = sums / 16 * largest_score_size(test);
  for (size_t i = 0; i < truth.at("log_sum_exp").size(); ++i) {
    const double expected = truth.at("log_sum_exp")[i];
    ASSERT_NEAR(found.at("log_sum_exp")[i], expected, 2 * sums * (1 + std::abs(expected)) + score_error)
        << test.name << " " << i;
  }
}

/// Documents that begin anywhere within a group of 16 rows, one key, whole tiles and one row more, windows shorter and
/// longer than a tile, grouped heads, rows of none, heads that are off.
inline std::vector<AttentionCase> fp8_attention_cases() {
  return {
      {.dim = 128, .lengths = {1}, .dtype = DType::kBF16},
      {.heads = 2, .dim = 128, .lengths = {37, 1, 150, 16}, .tail_rows = 5, .dtype = DType::kBF16},
      {.heads = 3, .kv_heads = 1, .dim = 128, .lengths = {129, 128}, .dtype = DType::kBF16},
      {.heads = 2, .kv_heads = 2, .dim = 128, .lengths = {130, 130, 130}, .dtype = DType::kBF16},
      {.dim = 128, .window = 40, .lengths = {9, 290}, .dtype = DType::kBF16},
      {.heads = 2, .dim = 128, .window = 200, .lengths = {131, 300}, .spare_documents = 3, .dtype = DType::kBF16},
      {.heads = 6, .kv_heads = 2, .dim = 128, .lengths = {70, 90}, .dtype = DType::kBF16, .off_heads = {1, 3, 4, 5}},
      {.heads = 2, .kv_heads = 2, .dim = 128, .lengths = {400}, .dtype = DType::kBF16, .magnitude = 3}};
}

}  // namespace litespark::test
