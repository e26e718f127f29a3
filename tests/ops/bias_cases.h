// SPDX-License-Identifier: Apache-2.0
// Bias gradient cases for the tests of every backend.
#pragma once

#include <string>

#include "core/checked.h"
#include "support/op_case.h"

namespace litespark::test {

struct BiasCase {
  int64_t rows = 1, columns = 1;
  DType dtype = DType::kF32;
  bool accumulate = false;
};

/// Rows off the blocks of 256, widths off the vectors.
inline const BiasCase kBiasCases[] = {{1, 1, DType::kF32, false},      {3, 7, DType::kF32, true},
                                      {256, 16, DType::kBF16, false},  {257, 33, DType::kF32, true},
                                      {1000, 300, DType::kF32, false}, {700, 515, DType::kBF16, true},
                                      {600, 2304, DType::kBF16, true}, {0, 5, DType::kF32, false}};

inline OpCase<op::BiasBackward<Tensor>> bias_case(const BiasCase& c) {
  OpCase<op::BiasBackward<Tensor>> test{
      .name = std::to_string(c.rows) + "x" + std::to_string(c.columns),
      .op = {.dbias = shape_only(DType::kF32, {c.columns}),
             .dy = shape_only(c.dtype, {c.rows, c.columns}),
             .partials = shape_only(DType::kF32, {ceil_div(c.rows, op::kBiasRowsPerBlock), c.columns}),
             .accumulate = c.accumulate},
      .inputs = {}};
  fill_at_random(test, 8);
  return test;
}

}  // namespace litespark::test
