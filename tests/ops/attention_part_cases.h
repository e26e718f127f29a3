// SPDX-License-Identifier: Apache-2.0
// Attention that context ranks share, played through on one backend: each rank's queries meet all ranks' keys part by
// part, in the order of the ring, and what comes out together must be what whole attention gives.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ops/attention_cases.h"
#include "support/conformance.h"
#include "support/tolerance.h"

namespace litespark::test {

struct AttentionPartCase {
  AttentionCase whole;  ///< rows: a multiple of 2 ranks
  int ranks = 2;

  std::string name() const { return whole.name() + ", ranks " + std::to_string(ranks); }
  int64_t rows() const { return whole.rows() / ranks; }
  int64_t kv_columns() const { return int64_t{2 * whole.kv_heads} * whole.dim; }

  /// Columns first .. first + count of a rank's rows of a [N, columns] matrix.
  std::vector<double> rows_of(const std::vector<double>& matrix, int rank, int64_t first, int64_t count) const {
    const auto columns = static_cast<size_t>(std::ssize(matrix) / whole.rows());
    std::vector<double> part;
    for (const size_t row : reference::context_rows(ranks, rank, static_cast<size_t>(whole.rows()))) {
      const auto begin = matrix.begin() + static_cast<std::ptrdiff_t>(row * columns) + first;
      part.insert(part.end(), begin, begin + count);
    }
    return part;
  }
  /// The way back: writes a rank's rows [n, count] to those columns of a [N, columns] matrix.
  void put_rows(const std::vector<double>& part, int rank, int64_t first, int64_t count,
                std::vector<double>& matrix) const {
    const auto columns = static_cast<size_t>(std::ssize(matrix) / whole.rows());
    auto from = part.begin();
    for (const size_t row : reference::context_rows(ranks, rank, static_cast<size_t>(whole.rows()))) {
      std::copy_n(from, count, matrix.begin() + static_cast<std::ptrdiff_t>(row * columns) + first);
      from += count;
    }
  }
  std::vector<double> keys_values_of(const Values& inputs, int rank) const {
    return rows_of(inputs.at("qkv"), rank, whole.out_columns(), kv_columns());
  }

  /// `inputs`: of the whole, with `qkv`, `offsets` and `num_documents`.
  OpCase<op::AttentionPartForward<Tensor>> forward(const Values& inputs, int query_rank, int key_rank,
                                                   bool first) const {
    OpCase<op::AttentionPartForward<Tensor>> test{
        .name = name() + ": queries of " + std::to_string(query_rank) + ", keys of " + std::to_string(key_rank),
        .op = {.out = shape_only(DType::kF32, {rows(), whole.out_columns()}),
               .log_sum_exp = shape_only(DType::kF32, {whole.heads, rows()}),
               .qkv = shape_only(whole.dtype, {rows(), whole.qkv_columns()}),
               .keys_values = shape_only(whole.dtype, {rows(), kv_columns()}),
               .offsets = shape_only(DType::kI32, {whole.shape().max_documents + 1}),
               .num_documents = shape_only(DType::kI32, {1}),
               .scratch = {},
               .shape = whole.shape(),
               .part = {.ranks = ranks, .query_rank = query_rank, .key_rank = key_rank},
               .first = first},
        .inputs = {}};
    test.inputs.tensors["qkv"] = rows_of(inputs.at("qkv"), query_rank, 0, whole.qkv_columns());
    test.inputs.tensors["keys_values"] = keys_values_of(inputs, key_rank);
    test.inputs.tensors["offsets"] = inputs.at("offsets");
    test.inputs.tensors["num_documents"] = inputs.at("num_documents");
    return test;
  }

  /// `inputs`: of the whole backward.
  OpCase<op::AttentionPartBackward<Tensor>> backward(const Values& inputs, int query_rank, int key_rank,
                                                     bool first) const {
    auto before = forward(inputs, query_rank, key_rank, first);
    OpCase<op::AttentionPartBackward<Tensor>> test{
        .name = before.name,
        .op = {.dqueries = shape_only(DType::kF32, {rows(), whole.out_columns()}),
               .dkeys_values = shape_only(DType::kF32, {rows(), kv_columns()}),
               .dout = shape_only(whole.dtype, {rows(), whole.out_columns()}),
               .qkv = before.op.qkv,
               .keys_values = before.op.keys_values,
               .out = shape_only(whole.dtype, {rows(), whole.out_columns()}),
               .log_sum_exp = before.op.log_sum_exp,
               .offsets = before.op.offsets,
               .num_documents = before.op.num_documents,
               .scratch = {},
               .shape = before.op.shape,
               .part = before.op.part,
               .first = first},
        .inputs = std::move(before.inputs)};
    for (const char* name : {"out", "dout"}) {
      test.inputs.tensors[name] = rows_of(inputs.at(name), query_rank, 0, whole.out_columns());
    }
    std::vector<double>& log_sum_exp = test.inputs.tensors["log_sum_exp"];
    for (int64_t head = 0; head < whole.heads; ++head) {
      const auto begin = inputs.at("log_sum_exp").begin() + head * whole.rows();
      const std::vector<double> of_head = rows_of({begin, begin + whole.rows()}, query_rank, 0, 1);
      log_sum_exp.insert(log_sum_exp.end(), of_head.begin(), of_head.end());
    }
    return test;
  }

  /// The key ranks that a rank meets, in its order.
  std::vector<int> ring_of(int rank) const {
    std::vector<int> order;
    for (int step = 0; step < ranks; ++step) order.push_back((rank - step + ranks) % ranks);
    return order;
  }
};

/// What all ranks' parts leave together, as the whole op names it; `run(case)` gives an op's outputs.
template <class Run>
Values join_forward(const AttentionPartCase& c, const Values& inputs, const Run& run) {
  Values all;
  all.tensors["out"].resize(static_cast<size_t>(c.whole.rows() * c.whole.out_columns()));
  all.tensors["log_sum_exp"].resize(static_cast<size_t>(c.whole.heads * c.whole.rows()));
  for (int rank = 0; rank < c.ranks; ++rank) {
    Values seen;
    for (const int key_rank : c.ring_of(rank)) {
      auto test = c.forward(inputs, rank, key_rank, key_rank == rank);
      for (const auto& [name, values] : seen.tensors) test.inputs.tensors[name] = values;
      seen = run(test);
    }
    c.put_rows(seen.at("out"), rank, 0, c.whole.out_columns(), all.tensors["out"]);
    for (int64_t head = 0; head < c.whole.heads; ++head) {
      const auto begin = seen.at("log_sum_exp").begin() + head * c.rows();
      std::vector<double> row(static_cast<size_t>(c.whole.rows()));
      c.put_rows({begin, begin + c.rows()}, rank, 0, 1, row);
      auto to = all.tensors["log_sum_exp"].begin() + head * c.whole.rows();
      for (const size_t place : reference::context_rows(c.ranks, rank, row.size())) {
        *(to + static_cast<std::ptrdiff_t>(place)) = row[place];
      }
    }
  }
  return all;
}

template <class Run>
Values join_backward(const AttentionPartCase& c, const Values& inputs, const Run& run) {
  Values all;
  std::vector<double>& dqkv = all.tensors["dqkv"];
  dqkv.resize(static_cast<size_t>(c.whole.rows() * c.whole.qkv_columns()));
  std::vector<std::vector<double>> dkeys_values(static_cast<size_t>(c.ranks));
  for (int rank = 0; rank < c.ranks; ++rank) {
    std::vector<double> dqueries;
    for (const int key_rank : c.ring_of(rank)) {
      auto test = c.backward(inputs, rank, key_rank, key_rank == rank);
      if (key_rank != rank) test.inputs.tensors["dqueries"] = dqueries;
      const Values found = run(test);
      dqueries = found.at("dqueries");
      std::vector<double>& sum = dkeys_values[static_cast<size_t>(key_rank)];
      sum.resize(found.at("dkeys_values").size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += found.at("dkeys_values")[i];
    }
    c.put_rows(dqueries, rank, 0, c.whole.out_columns(), dqkv);
  }
  for (int rank = 0; rank < c.ranks; ++rank) {
    c.put_rows(dkeys_values[static_cast<size_t>(rank)], rank, c.whole.out_columns(), c.kv_columns(), dqkv);
  }
  return all;
}

/// Two, three and four ranks; chunks off every tile and of one row; documents that end at chunk borders, cross them, or
/// go over all ranks; ranks without any document; windows shorter and longer than a chunk; keys cut into ranges.
inline std::vector<AttentionPartCase> attention_part_cases() {
  std::vector<AttentionPartCase> cases = {
      {{.lengths = {4}}, 2},
      {{.heads = 3, .kv_heads = 1, .dim = 7, .lengths = {10, 1, 7}}, 3},
      {{.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {512}}, 4},
      {{.heads = 4, .kv_heads = 2, .dim = 24, .lengths = {70, 70, 70, 70}}, 2},
      {{.heads = 4,
        .kv_heads = 2,
        .dim = 32,
        .lengths = {1, 63, 1, 64, 65, 1, 130},
        .tail_rows = 11,
        .spare_documents = 5},
       4},
      {{.heads = 18, .kv_heads = 1, .dim = 8, .lengths = {50, 99}, .tail_rows = 151}, 3},
      {{.heads = 2, .kv_heads = 1, .dim = 24, .window = 5, .lengths = {150, 42}}, 2},
      {{.heads = 2, .kv_heads = 1, .dim = 32, .window = 64, .lengths = {200, 64, 66}}, 3},
      {{.heads = 2, .kv_heads = 2, .dim = 40, .window = 130, .lengths = {400}}, 4},
      {{.heads = 2, .kv_heads = 1, .dim = 33, .lengths = {1200, 20}, .tail_rows = 0}, 2},
      {{.heads = 1, .kv_heads = 1, .dim = 16, .window = 500, .lengths = {1100}}, 2},
      {{.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {130, 6}, .has_alibi = true}, 2},
      {{.heads = 4, .kv_heads = 4, .dim = 40, .window = 70, .lengths = {150}, .tail_rows = 2, .has_alibi = true}, 1}};
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    if (cases[i].whole.window >= 130) continue;  // enough of the long ones
    cases.push_back(cases[i]);
    cases.back().whole.dtype = DType::kBF16;
  }
  return cases;
}

/// f32 statistics of the reference, as a kernel before this one would have left them.
inline Values rounded(const Values& values) {
  Values all;
  for (const auto& [name, numbers] : values.tensors) {
    for (const double number : numbers) all.tensors[name].push_back(round_to(DType::kF32, number));
  }
  return all;
}

/// What comes of bf16 operands has their rounding, though sums are left in f32: held to the rule as if they were bf16.
inline Execution in_dtype_of(const AttentionPartCase& c, Execution execution) {
  if (c.whole.dtype == DType::kF32) return execution;
  for (const char* name : {"out", "dqueries", "dkeys_values"}) {
    if (!execution.outputs.has(name)) continue;
    execution.dtypes[name] = DType::kBF16;
    for (double& value : execution.outputs.tensors[name]) value = round_to(DType::kBF16, value);
  }
  return execution;
}

/// With scratch as the backend asks for.
template <class Op>
OpCase<Op> with_scratch(Backend& backend, OpCase<Op> test) {
  const auto bytes = [&] {
    const BackendSizes& sizes = backend.sizes();
    if constexpr (requires { test.op.dqueries; }) {
      return sizes.attention_part_backward_scratch_bytes(test.op.shape, test.op.qkv.rows(), test.op.qkv.dtype);
    } else {
      return sizes.attention_part_forward_scratch_bytes(test.op.shape, test.op.qkv.rows(), test.op.qkv.dtype);
    }
  }();
  if (bytes > 0) test.op.scratch = shape_only(DType::kU8, {bytes});
  return test;
}

/// The first rank and the last, whose chunks are furthest apart and next to each other.
inline std::vector<int> ranks_at_the_ends(const AttentionPartCase& c) {
  return c.ranks == 1 ? std::vector<int>{0} : std::vector<int>{0, c.ranks - 1};
}

/// The rule with twice the largest error, since the gradient of a query that sees few keys is a difference of two sums
/// that are nearly one, and the plain loop adds both in one order; and with twice the root mean square where weights
/// are rounded to bf16 and not only what comes out. Small samples get two roundings; of a few numbers, which may all
/// have come out exact in the plain loop, only the largest error counts.
inline void expect_gradient_rule(const std::string& name, const Execution& execution, const Values& truth,
                                 const Values& plain) {
  for (const auto& [tensor, expected] : truth.tensors) {
    std::vector<double> rounded = plain.at(tensor);
    for (double& value : rounded) value = round_to(execution.dtypes.at(tensor), value);
    const ErrorStats ours = compare(execution.outputs.at(tensor), expected);
    const ErrorStats usual = compare(rounded, expected);
    const bool is_bf16 = execution.dtypes.at(tensor) == DType::kBF16;
    const double slack = (ours.count >= 256 ? 0x1p-23 : is_bf16 ? 0x1p-8 : 0x1p-22) * ours.largest_expected;
    EXPECT_EQ(ours.kind_mismatches, 0) << name << ": " << tensor;
    constexpr int kFew = 16;
    if (ours.count >= kFew) {
      EXPECT_LE(ours.rms, (is_bf16 ? 2 : 1.5) * usual.rms + slack) << name << ": " << tensor;
    }
    EXPECT_LE(ours.max_abs, 4 * usual.max_abs + slack) << name << ": " << tensor;
  }
}

/// Reports numbers further apart than `limit` of the largest.
inline void expect_near_all(const std::string& name, const std::vector<double>& found,
                            const std::vector<double>& expected, double limit) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  double largest = 0;
  double apart = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    apart = std::max(apart, std::abs(found[i] - expected[i]));
    ASSERT_FALSE(std::isnan(found[i])) << name << " at " << i;
  }
  EXPECT_LE(apart, limit * largest) << name;
}

/// All ranks' parts, which `run(case)` executes, against whole attention and its gradient.
template <class Run>
void expect_whole_attention(const AttentionPartCase& c, const Run& run) {
  SCOPED_TRACE(c.name());
  const bool is_bf16 = c.whole.dtype == DType::kBF16;
  const auto forward = c.whole.forward(3);
  const auto backward = c.whole.backward(3);
  const Values whole = reference::evaluate<double>(forward.op, forward.inputs);
  const Values gradient = reference::evaluate<double>(backward.op, backward.inputs);
  Values found = join_forward(c, forward.inputs, run);
  for (int64_t head = 0; head < c.whole.heads; ++head) {
    for (int64_t row = c.whole.document_rows(); row < c.whole.rows(); ++row) {
      double& nothing = found.tensors["log_sum_exp"][static_cast<size_t>(head * c.whole.rows() + row)];
      EXPECT_EQ(nothing, -std::numeric_limits<double>::infinity());
      nothing = 0;  // what whole attention leaves there
    }
  }
  expect_near_all("out", found.at("out"), whole.at("out"), is_bf16 ? 8e-3 : 2e-6);
  expect_near_all("log_sum_exp", found.at("log_sum_exp"), whole.at("log_sum_exp"), is_bf16 ? 8e-3 : 2e-6);
  expect_near_all("dqkv", join_backward(c, backward.inputs, run).at("dqkv"), gradient.at("dqkv"),
                  is_bf16 ? 8e-3 : 4e-6);
}

}  // namespace litespark::test
