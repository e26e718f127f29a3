// SPDX-License-Identifier: Apache-2.0
// Cases of the products with SwiGLU inside, for the tests of every backend.
#pragma once

#include <cmath>
#include <string>

#include "support/op_case.h"

namespace litespark::test {

struct GatedCase {
  int64_t rows = 1, depth = 1, columns = 1;
  DType dtype = DType::kF32;

  std::string name() const {
    return std::to_string(rows) + " x " + std::to_string(depth) + " -> " + std::to_string(columns) + " " +
           std::string(dtype_name(dtype));
  }
};

inline OpCase<op::GatedForward<Tensor>> gated_forward_case(const GatedCase& c) {
  OpCase<op::GatedForward<Tensor>> test{.name = c.name(),
                                        .op = {.gate_up = shape_only(c.dtype, {c.rows, 2 * c.columns}),
                                               .h = shape_only(c.dtype, {c.rows, c.columns}),
                                               .x = shape_only(c.dtype, {c.rows, c.depth}),
                                               .weight = shape_only(c.dtype, {2 * c.columns, c.depth}),
                                               .scratch = shape_only(DType::kU8, {1 << 18})},
                                        .inputs = {}};
  test.inputs.tensors["weight"] =
      random_normal(c.dtype, 2 * c.columns * c.depth, 11, 1 / std::sqrt(static_cast<double>(c.depth)));
  fill_at_random(test, 12);
  return test;
}

inline OpCase<op::GatedBackward<Tensor>> gated_backward_case(const GatedCase& c) {
  OpCase<op::GatedBackward<Tensor>> test{
      .name = c.name(),
      .op = {.dgate_up = shape_only(c.dtype, {c.rows, 2 * c.columns}),
             .gate_up = shape_only(c.dtype, {c.rows, 2 * c.columns}),
             .dout = shape_only(c.dtype, {c.rows, c.depth}),
             .weight = shape_only(c.dtype, {c.depth, c.columns}),
             .scratch = shape_only(DType::kU8, {op::gated_gradient_bytes(c.rows, c.columns, c.dtype) + (1 << 18)})},
      .inputs = {}};
  test.inputs.tensors["weight"] =
      random_normal(c.dtype, c.columns * c.depth, 13, 1 / std::sqrt(static_cast<double>(c.depth)));
  fill_at_random(test, 14);
  return test;
}

}  // namespace litespark::test
