// SPDX-License-Identifier: Apache-2.0
// Embedding cases for the tests of every backend.
#pragma once

#include <string>

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

}  // namespace litespark::test
