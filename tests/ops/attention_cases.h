// SPDX-License-Identifier: Apache-2.0
// Attention inputs for tests: documents of given lengths laid end to end, random or chosen heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "reference/rope.h"
#include "support/op_case.h"

namespace litespark::test {

struct AttentionCase {
  int heads = 1, kv_heads = 1, dim = 1, window = 0;
  std::vector<int> lengths = {1};
  int tail_rows = 0;        ///< rows of no document
  int spare_documents = 0;  ///< capacity of the offsets beyond the documents there are
  DType dtype = DType::kF32;
  double magnitude = 1;  ///< of the values in qkv
  bool has_alibi = false;
  std::vector<int> off_heads = {};
  std::optional<DType> angles = {};  ///< of a table by which q and k are rotated, and their gradients back

  int64_t document_rows() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }
  int64_t rows() const { return document_rows() + tail_rows; }
  int64_t qkv_columns() const { return int64_t{heads + 2 * kv_heads} * dim; }
  int64_t out_columns() const { return int64_t{heads} * dim; }

  std::string name() const {
    std::string text = std::to_string(heads) + "/" + std::to_string(kv_heads) + " heads of " + std::to_string(dim) +
                       ", window " + std::to_string(window) + (has_alibi ? ", alibi, " : ", ") +
                       std::string(dtype_name(dtype)) + ", lengths";
    for (const int length : lengths) text += " " + std::to_string(length);
    for (const int head : off_heads) text += (head == off_heads[0] ? ", without heads " : " ") + std::to_string(head);
    if (angles) text += ", rotated by angles in " + std::string(dtype_name(*angles));
    return text;
  }

  op::HeadGates gates() const {
    op::HeadGates gates;
    for (const int head : off_heads) gates.switch_off(head);
    return gates;
  }

  op::AttentionShape shape() const {
    int longest = 1;
    bool uniform = tail_rows == 0 && spare_documents == 0;
    for (const int length : lengths) {
      longest = std::max(longest, length);
      uniform = uniform && length == lengths[0];
    }
    return {.num_heads = heads,
            .num_kv_heads = kv_heads,
            .head_dim = dim,
            .window = window,
            .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim))),
            .max_documents = static_cast<int>(lengths.size()) + spare_documents,
            .max_length = longest,
            .uniform = uniform,
            .has_alibi = has_alibi,
            .gates = gates()};
  }

  /// qkv, offsets and num_documents.
  Values inputs(uint64_t seed) const {
    std::vector<double> offsets = {0};
    for (const int length : lengths) offsets.push_back(offsets.back() + length);
    offsets.resize(offsets.size() + static_cast<size_t>(spare_documents), -1);
    return {.tensors = {{"qkv", random_normal(dtype, rows() * qkv_columns(), seed, magnitude)},
                        {"offsets", offsets},
                        {"num_documents", {static_cast<double>(lengths.size())}}},
            .state = {}};
  }

  /// Gives `test` the angles of random positions.
  template <class Op>
  void add_angles(OpCase<Op>& test, uint64_t seed) const {
    if (!angles) return;
    constexpr int64_t kPositions = 300;
    test.op.table = shape_only(*angles, {kPositions, dim});
    test.op.positions = shape_only(DType::kI32, {rows()});
    std::vector<double>& table = test.inputs.tensors["table"] = reference::rope_table(kPositions, dim, 10000.0);
    for (double& value : table) value = round_to(*angles, round_to(DType::kF32, value));
    test.inputs.tensors["positions"] = random_integers(rows(), seed, kPositions);
  }

  OpCase<op::AttentionForward<Tensor>> forward(uint64_t seed) const {
    OpCase<op::AttentionForward<Tensor>> test = unrotated_forward(seed);
    add_angles(test, seed + 200);
    if (angles) test.op.rotated = test.op.qkv;
    return test;
  }

  OpCase<op::AttentionForward<Tensor>> unrotated_forward(uint64_t seed) const {
    return {.name = name(),
            .op = {.out = shape_only(dtype, {rows(), out_columns()}),
                   .log_sum_exp = shape_only(DType::kF32, {heads, rows()}),
                   .qkv = shape_only(dtype, {rows(), qkv_columns()}),
                   .offsets = shape_only(DType::kI32, {shape().max_documents + 1}),
                   .num_documents = shape_only(DType::kI32, {1}),
                   .scratch = {},
                   .abs_max = {},
                   .shape = shape()},
            .inputs = inputs(seed)};
  }

  /// The forward's outputs are those of the fp64 reference, rounded.
  OpCase<op::AttentionBackward<Tensor>> backward(uint64_t seed) const {
    const auto before = unrotated_forward(seed);
    Values values = before.inputs;
    for (const auto& [key, output] : reference::evaluate<double>(before.op, before.inputs).tensors) {
      std::vector<double>& rounded = values.tensors[key];
      for (const double value : output) rounded.push_back(round_to(key == "out" ? dtype : DType::kF32, value));
    }
    values.tensors["dout"] = random_normal(dtype, rows() * out_columns(), seed + 100);
    OpCase<op::AttentionBackward<Tensor>> test{.name = name(),
                                               .op = {.dqkv = shape_only(dtype, {rows(), qkv_columns()}),
                                                      .dout = shape_only(dtype, {rows(), out_columns()}),
                                                      .qkv = before.op.qkv,
                                                      .out = before.op.out,
                                                      .log_sum_exp = before.op.log_sum_exp,
                                                      .offsets = before.op.offsets,
                                                      .num_documents = before.op.num_documents,
                                                      .scratch = {},
                                                      .shape = shape()},
                                               .inputs = values};
    add_angles(test, seed + 200);
    return test;
  }
};

/// One row and one lane, sizes off every block, several tiles, GQA where heads / kv_heads differs from both
/// (report:B23), many heads to a key head, windows shorter and longer than a tile, packed documents with length-1 ones
/// (fault:C11) and rows of none, documents long enough to be cut in the backward pass, heads that are off.
inline std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases = {
      {.lengths = {1}},
      {.heads = 3, .kv_heads = 1, .dim = 7, .lengths = {5}},
      {.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {97}},
      {.heads = 6, .kv_heads = 2, .dim = 40, .lengths = {257}},
      {.heads = 2, .kv_heads = 2, .dim = 64, .lengths = {128, 128}},
      {.heads = 18, .kv_heads = 1, .dim = 8, .lengths = {70, 9}, .tail_rows = 3},
      {.heads = 2, .kv_heads = 1, .dim = 24, .window = 5, .lengths = {150}},
      {.heads = 2, .kv_heads = 1, .dim = 32, .window = 64, .lengths = {200, 64, 65}},
      {.heads = 4, .kv_heads = 2, .dim = 32, .window = 100, .lengths = {300, 1}},
      {.heads = 4,
       .kv_heads = 2,
       .dim = 32,
       .lengths = {1, 63, 1, 64, 65, 1, 130},
       .tail_rows = 11,
       .spare_documents = 5},
      {.heads = 2, .kv_heads = 1, .dim = 33, .lengths = {600, 20}, .tail_rows = 1},
      {.heads = 1, .kv_heads = 1, .dim = 16, .window = 130, .lengths = {700}},
      {.heads = 2, .kv_heads = 2, .dim = 128, .lengths = {66}},
      {.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {130, 3}, .has_alibi = true},
      {.heads = 18, .kv_heads = 1, .dim = 8, .lengths = {70}, .has_alibi = true},
      {.heads = 4, .kv_heads = 4, .dim = 40, .window = 70, .lengths = {600}, .tail_rows = 2, .has_alibi = true},
      {.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {97, 3}, .tail_rows = 2, .off_heads = {1, 3, 4, 5}},
      {.heads = 20, .kv_heads = 2, .dim = 8, .lengths = {130}, .has_alibi = true, .off_heads = {0, 8, 11}},
      {.heads = 4, .kv_heads = 2, .dim = 33, .window = 90, .lengths = {600, 20}, .tail_rows = 1, .off_heads = {0, 2}},
      {.heads = 2, .kv_heads = 2, .dim = 64, .lengths = {64, 64}, .off_heads = {0, 1}},
      {.heads = 6, .kv_heads = 2, .dim = 16, .lengths = {97, 3}, .tail_rows = 2, .angles = DType::kF32},
      {.heads = 2, .kv_heads = 1, .dim = 34, .window = 40, .lengths = {150}, .angles = DType::kBF16},
      {.heads = 4, .kv_heads = 2, .dim = 32, .lengths = {64, 64}, .off_heads = {1}, .angles = DType::kF16}};
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    cases.push_back(cases[i]);
    cases.back().dtype = DType::kBF16;
  }
  return cases;
}

/// NaN in all that belongs to heads that are off, keys and values that only they read included.
template <class Op>
void spoil_off_heads(const AttentionCase& c, OpCase<Op>& test) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const op::HeadGates gates = c.gates();
  const int group = c.heads / c.kv_heads;
  const auto spoil = [&](const char* name, int64_t columns, int64_t first) {
    const auto found = test.inputs.tensors.find(name);
    if (found == test.inputs.tensors.end()) return;
    for (int64_t row = 0; row < c.rows(); ++row) {
      std::fill_n(found->second.begin() + row * columns + first, c.dim, nan);
    }
  };
  for (int head = 0; head < c.heads; ++head) {
    if (gates.is_on(head)) continue;
    spoil("qkv", c.qkv_columns(), int64_t{head} * c.dim);
    for (const char* const name : {"out", "dout"}) spoil(name, c.out_columns(), int64_t{head} * c.dim);
    const auto statistics = test.inputs.tensors.find("log_sum_exp");
    if (statistics != test.inputs.tensors.end()) {
      std::fill_n(statistics->second.begin() + head * c.rows(), c.rows(), nan);
    }
  }
  for (int kv_head = 0; kv_head < c.kv_heads; ++kv_head) {
    if (gates.num_on(kv_head * group, group) > 0) continue;
    spoil("qkv", c.qkv_columns(), int64_t{c.heads + kv_head} * c.dim);
    spoil("qkv", c.qkv_columns(), int64_t{c.heads + c.kv_heads + kv_head} * c.dim);
  }
}

}  // namespace litespark::test
