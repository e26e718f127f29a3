// SPDX-License-Identifier: Apache-2.0
// RMSNorm cases for the tests of every backend.
#pragma once

#include <cmath>
#include <string>

#include "core/checked.h"
#include "support/op_case.h"

namespace litespark::test {

struct NormCase {
  int64_t rows = 1, columns = 1;
  DType residual = DType::kF32, compute = DType::kF32;
  bool has_delta = false, accumulate = false;

  std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(columns) + " " + std::string(dtype_name(residual)) + "/" +
           std::string(dtype_name(compute)) + (has_delta ? " with delta" : "");
  }
};

/// One row and one column, widths around and off multiples of 16, several row blocks, the 124M model's width.
inline const NormCase kNormCases[] = {
    {1, 1, DType::kF32, DType::kF32, false, false},     {3, 7, DType::kF32, DType::kF32, true, true},
    {5, 16, DType::kF32, DType::kBF16, true, false},    {65, 33, DType::kF32, DType::kBF16, true, true},
    {130, 64, DType::kBF16, DType::kBF16, true, false}, {64, 255, DType::kF32, DType::kF32, true, false},
    {200, 768, DType::kF32, DType::kBF16, true, true},  {67, 768, DType::kF32, DType::kF32, false, true},
    {0, 8, DType::kF32, DType::kF32, true, false}};

inline OpCase<op::RmsNormForward<Tensor>> norm_forward_case(const NormCase& c) {
  const Shape shape{c.rows, c.columns};
  OpCase<op::RmsNormForward<Tensor>> test{.name = c.name(),
                                          .op = {.y = shape_only(c.compute, shape),
                                                 .rstd = shape_only(DType::kF32, {c.rows}),
                                                 .sum = c.has_delta ? shape_only(c.residual, shape) : Tensor{},
                                                 .x = shape_only(c.residual, shape),
                                                 .delta = c.has_delta ? shape_only(c.compute, shape) : Tensor{},
                                                 .weight = shape_only(DType::kF32, {c.columns})},
                                          .inputs = {}};
  fill_at_random(test, 1);
  return test;
}

/// `first`: no gradient comes from above.
inline OpCase<op::RmsNormBackward<Tensor>> norm_backward_case(const NormCase& c, bool first) {
  const Shape shape{c.rows, c.columns};
  OpCase<op::RmsNormBackward<Tensor>> test{
      .name = c.name() + (first ? " first" : ""),
      .op = {.dresidual = shape_only(c.residual, shape),
             .dresidual_cast = c.residual == c.compute ? Tensor{} : shape_only(c.compute, shape),
             .dweight = shape_only(DType::kF32, {c.columns}),
             .dy = shape_only(c.compute, shape),
             .x = shape_only(c.residual, shape),
             .rstd = shape_only(DType::kF32, {c.rows}),
             .weight = shape_only(DType::kF32, {c.columns}),
             .partials = shape_only(DType::kF32, {ceil_div(c.rows, op::kRmsNormRowsPerBlock), c.columns}),
             .first = first,
             .accumulate = c.accumulate},
      .inputs = {}};
  fill_at_random(test, 2);
  for (double& rstd : test.inputs.tensors["rstd"]) rstd = round_to(DType::kF32, 0.5 + std::abs(rstd));
  return test;
}

}  // namespace litespark::test
