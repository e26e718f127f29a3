// SPDX-License-Identifier: Apache-2.0
// SwiGLU cases for the tests of every backend.
#pragma once

#include <string>

#include "support/op_case.h"

namespace litespark::test {

struct SwiGluCase {
  int64_t rows = 1, width = 1;
  DType dtype = DType::kF32;
  double scale = 1;  ///< of the random gates and ups

  std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(width) + " " + std::string(dtype_name(dtype));
  }
};

/// Widths off the vectors and around the chunks in which a GPU cuts a row; gates far from zero.
inline const SwiGluCase kSwiGluCases[] = {
    {1, 1, DType::kF32, 1},     {1100, 1, DType::kBF16, 1}, {3, 7, DType::kBF16, 3},    {300, 7, DType::kF32, 30},
    {5, 16, DType::kF32, 10},   {17, 33, DType::kF32, 1},   {67, 33, DType::kBF16, 30}, {64, 688, DType::kF32, 2},
    {33, 688, DType::kBF16, 2}, {2, 5000, DType::kF32, 1},  {0, 8, DType::kF32, 1}};
inline const SwiGluCase kWideSwiGluCases[] = {
    {9, 2048, DType::kBF16, 1},  {33, 4096, DType::kF32, 30}, {33, 4096, DType::kBF16, 1}, {3, 4104, DType::kF32, 1},
    {3, 4104, DType::kBF16, 30}, {5, 8192, DType::kBF16, 1},  {2, 11008, DType::kF32, 1}};

inline OpCase<op::SwiGluForward<Tensor>> swiglu_forward_case(const SwiGluCase& c) {
  OpCase<op::SwiGluForward<Tensor>> test{
      .name = c.name(),
      .op = {.h = shape_only(c.dtype, {c.rows, c.width}), .gate_up = shape_only(c.dtype, {c.rows, 2 * c.width})},
      .inputs = {}};
  test.inputs.tensors["gate_up"] = random_normal(c.dtype, 2 * c.rows * c.width, 5, c.scale);
  return test;
}

inline OpCase<op::SwiGluBackward<Tensor>> swiglu_backward_case(const SwiGluCase& c) {
  OpCase<op::SwiGluBackward<Tensor>> test{.name = c.name(),
                                          .op = {.dgate_up = shape_only(c.dtype, {c.rows, 2 * c.width}),
                                                 .dh = shape_only(c.dtype, {c.rows, c.width}),
                                                 .gate_up = shape_only(c.dtype, {c.rows, 2 * c.width})},
                                          .inputs = {}};
  test.inputs.tensors["gate_up"] = random_normal(c.dtype, 2 * c.rows * c.width, 6, c.scale);
  fill_at_random(test, 7);
  return test;
}

}  // namespace litespark::test
