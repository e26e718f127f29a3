// SPDX-License-Identifier: Apache-2.0
// Embedding cases for the tests of every backend.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "support/op_case.h"

namespace litespark::test {

struct EmbeddingCase {
  int64_t tokens = 1, vocab = 1, columns = 1;
  DType dtype = DType::kF32;
  bool accumulate = false;

  std::string name() const {
    return std::to_string(tokens) + " of " + std::to_string(vocab) + "x" + std::to_string(columns) + " " +
           std::string(dtype_name(dtype)) + (accumulate ? " accumulate" : "");
  }
};

/// Rare, frequent and single ids, ids that no token has, widths off the vectors.
inline const EmbeddingCase kEmbeddingCases[] = {
    {1, 1, 1, DType::kF32, false},       {7, 5, 3, DType::kBF16, true},       {100, 11, 16, DType::kF32, true},
    {333, 1000, 33, DType::kBF16, true}, {333, 1000, 33, DType::kF32, false}, {512, 64, 768, DType::kF32, false},
    {90, 4, 12, DType::kF32, false},     {0, 9, 4, DType::kF32, false}};

/// Runs of equal ids on both sides of what a GPU's warp adds alone and of what a block sorts at once, one id for every
/// token, more ids than tokens.
inline const EmbeddingCase kLongEmbeddingCases[] = {{3000, 40, 264, DType::kBF16, true},
                                                    {5000, 1, 72, DType::kBF16, false},
                                                    {2500, 9001, 16, DType::kF32, true},
                                                    {20000, 3, 8, DType::kBF16, true},
                                                    {700, 30, 1600, DType::kBF16, false}};

/// A table that is cut into pieces of `rows` ids: lookups of all pieces add up to that of the whole table, and each
/// piece's gradient is its rows of the whole one's. Bad ids count in every piece.
template <class Execute>
void expect_pieces_to_be_the_whole(const EmbeddingCase& c, int64_t rows, const Execute& execute);

inline OpCase<op::EmbeddingForward<Tensor>> embedding_forward_case(const EmbeddingCase& c, DType out) {
  OpCase<op::EmbeddingForward<Tensor>> test{.name = c.name(),
                                            .op = {.out = shape_only(out, {c.tokens, c.columns}),
                                                   .table = shape_only(c.dtype, {c.vocab, c.columns}),
                                                   .ids = shape_only(DType::kI32, {c.tokens}),
                                                   .state = state_shape()},
                                            .inputs = {}};
  test.inputs.tensors["ids"] = random_integers(c.tokens, 10, c.vocab);
  fill_at_random(test, 11);
  return test;
}

inline OpCase<op::EmbeddingBackward<Tensor>> embedding_backward_case(const EmbeddingCase& c) {
  OpCase<op::EmbeddingBackward<Tensor>> test{.name = c.name(),
                                             .op = {.dtable = shape_only(DType::kF32, {c.vocab, c.columns}),
                                                    .dout = shape_only(c.dtype, {c.tokens, c.columns}),
                                                    .ids = shape_only(DType::kI32, {c.tokens}),
                                                    .scratch = shape_only(DType::kI32, {2 * c.tokens + c.vocab + 1}),
                                                    .accumulate = c.accumulate},
                                             .inputs = {}};
  test.inputs.tensors["ids"] = random_integers(c.tokens, 12, c.vocab);
  fill_at_random(test, 13);
  return test;
}

/// Ids outside the vocabulary, with a counter that has counted before.
inline OpCase<op::EmbeddingForward<Tensor>> bad_ids_case(int64_t columns) {
  auto test = embedding_forward_case({.tokens = 5, .vocab = 4, .columns = columns}, DType::kBF16);
  test.inputs.tensors["ids"] = {3, 4, -1, 2147483647, -2147483648.0};
  test.inputs.state.bad_tokens = 10;
  return test;
}

template <class Execute>
void expect_pieces_to_be_the_whole(const EmbeddingCase& c, int64_t rows, const Execute& execute) {
  auto lookup = embedding_forward_case(c, c.dtype);
  auto gradient = embedding_backward_case(c);
  lookup.inputs.tensors["ids"][0] = static_cast<double>(c.vocab);
  gradient.inputs.tensors["ids"][0] = -1;
  const Execution whole = execute(lookup);
  const Execution whole_gradient = execute(gradient);
  std::vector<double> sum(whole.outputs.at("out").size());
  std::vector<double> joined;
  for (int64_t first = 0; first < c.vocab; first += rows) {
    const auto begin = [&](const std::vector<double>& table) { return table.begin() + first * c.columns; };
    const int64_t held = std::min(rows, c.vocab - first);
    auto part = lookup;
    part.op.table = shape_only(c.dtype, {rows, c.columns});
    part.op.first_id = first;
    part.op.vocab = c.vocab;
    auto& table = part.inputs.tensors["table"];
    table.assign(begin(lookup.inputs.at("table")), begin(lookup.inputs.at("table")) + held * c.columns);
    table.resize(static_cast<size_t>(rows * c.columns), 77.0);  // padding
    const Execution found = execute(part);
    EXPECT_EQ(found.outputs.state.bad_tokens, 1);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += found.outputs.at("out")[i];

    auto piece = gradient;
    piece.op.dtable = shape_only(DType::kF32, {held, c.columns});
    piece.op.scratch = shape_only(DType::kI32, {2 * c.tokens + held + 1});
    piece.op.first_id = first;
    if (c.accumulate) {
      const auto& before = gradient.inputs.at("dtable");
      piece.inputs.tensors["dtable"].assign(begin(before), begin(before) + held * c.columns);
    }
    const std::vector<double> rows_found = execute(piece).outputs.at("dtable");
    joined.insert(joined.end(), rows_found.begin(), rows_found.end());
  }
  EXPECT_EQ(sum, whole.outputs.at("out"));
  EXPECT_EQ(joined, whole_gradient.outputs.at("dtable"));
}

}  // namespace litespark::test
