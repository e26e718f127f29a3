// SPDX-License-Identifier: Apache-2.0
// Cross-entropy cases for the tests of every backend.
#pragma once

#include <string>

#include "support/op_case.h"

namespace litespark::test {

struct LossCase {
  int64_t rows = 1, vocab = 1;
  DType dtype = DType::kF32;
  float z_coefficient = 0;
  bool has_log_sum_exp = true, write_gradient = true;
  double scale = 1;  ///< of the random logits
};

/// One logit, widths off every vector, with and without what is optional, sharp and flat rows.
inline const LossCase kLossCases[] = {
    {1, 1, DType::kF32, 0, true, true, 1},          {3, 7, DType::kF32, 0.01f, true, true, 2},
    {5, 16, DType::kBF16, 0, false, true, 3},       {9, 33, DType::kF32, 0, true, false, 10},
    {64, 255, DType::kF32, 1e-4f, true, true, 4},   {64, 255, DType::kBF16, 1e-4f, true, true, 4},
    {33, 4096, DType::kBF16, 1e-4f, true, true, 2}, {17, 4096, DType::kF32, 0, false, true, 2},
    {2, 32000, DType::kF32, 0, true, true, 5},      {0, 10, DType::kF32, 0, true, true, 1}};

/// Rows around what a GPU's block, and a cluster of blocks, can hold: 128,256 is Llama 3's vocabulary.
inline const LossCase kLongLossCases[] = {
    {17, 8200, DType::kF32, 0, false, true, 2},      {7, 32000, DType::kF32, 0, true, true, 5},
    {7, 50257, DType::kBF16, 0, true, true, 5},      {6, 50304, DType::kBF16, 0, false, true, 5},
    {6, 128256, DType::kBF16, 0, true, true, 4},     {4, 128256, DType::kF32, 0, true, true, 4},
    {3, 200000, DType::kBF16, 1e-4f, true, true, 3}, {2, 300000, DType::kBF16, 0, true, true, 3}};

/// Every fifth row from the fifth on is not scored.
inline OpCase<op::CrossEntropy<Tensor>> loss_case(const LossCase& c) {
  OpCase<op::CrossEntropy<Tensor>> test{
      .name = std::to_string(c.rows) + "x" + std::to_string(c.vocab) + " " + std::string(dtype_name(c.dtype)),
      .op = {.losses = shape_only(DType::kF32, {c.rows}),
             .log_sum_exp = c.has_log_sum_exp ? shape_only(DType::kF32, {c.rows}) : Tensor{},
             .logits = shape_only(c.dtype, {c.rows, c.vocab}),
             .labels = shape_only(DType::kI32, {c.rows}),
             .state = state_shape(),
             .z_coefficient = c.z_coefficient,
             .write_gradient = c.write_gradient},
      .inputs = {}};
  test.inputs.tensors["logits"] = random_normal(c.dtype, c.rows * c.vocab, 14, c.scale);
  test.inputs.tensors["labels"] = random_integers(c.rows, 15, c.vocab);
  for (size_t n = 4; n < static_cast<size_t>(c.rows); n += 5) test.inputs.tensors["labels"][n] = op::kIgnoredLabel;
  return test;
}

/// 2 of 3 rows are scored.
inline OpCase<op::LossReduce<Tensor>> loss_reduce_case(int64_t rows) {
  OpCase<op::LossReduce<Tensor>> test{.name = "reduce " + std::to_string(rows),
                                      .op = {.state = state_shape(),
                                             .losses = shape_only(DType::kF32, {rows}),
                                             .log_sum_exp = shape_only(DType::kF32, {rows}),
                                             .labels = shape_only(DType::kI32, {rows}),
                                             .z_coefficient = 0.5f},
                                      .inputs = {}};
  fill_at_random(test, 16);
  test.inputs.tensors["labels"] = random_integers(rows, 17, 50);
  for (size_t n = 0; n < static_cast<size_t>(rows); n += 3) test.inputs.tensors["labels"][n] = op::kIgnoredLabel;
  test.inputs.state = {.loss_sum = 3, .z_loss_sum = 2, .supervised_tokens = 100};
  return test;
}

}  // namespace litespark::test
