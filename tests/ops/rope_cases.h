// SPDX-License-Identifier: Apache-2.0
// RoPE cases for the tests of every backend.
#pragma once

#include <string>

#include "reference/rope.h"
#include "support/op_case.h"

namespace litespark::test {

struct RopeCase {
  int64_t rows = 1;
  int rotated = 1, total = 1, dim = 2;
  DType dtype = DType::kF32;
  bool inverse = false;
  DType table = DType::kF32;
};

/// Head widths that fill a GPU warp's lanes evenly and not, whole vectors and none, value heads behind.
inline const RopeCase kRopeCases[] = {
    {.rows = 1, .rotated = 1, .total = 1, .dim = 2},   {.rows = 97, .rotated = 8, .total = 10, .dim = 6},
    {.rows = 37, .rotated = 6, .total = 9, .dim = 16}, {.rows = 257, .rotated = 3, .total = 4, .dim = 64},
    {.rows = 9, .rotated = 5, .total = 7, .dim = 96},  {.rows = 65, .rotated = 32, .total = 40, .dim = 128},
    {.rows = 7, .rotated = 3, .total = 4, .dim = 256}, {.rows = 6, .rotated = 2, .total = 3, .dim = 70},
    {.rows = 3, .rotated = 2, .total = 3, .dim = 130}, {.rows = 0, .rotated = 3, .total = 4, .dim = 64}};

inline OpCase<op::Rope<Tensor>> rope_case(const RopeCase& c, const std::vector<double>& positions,
                                          int64_t num_positions, uint64_t seed) {
  std::vector<double> table = reference::rope_table(num_positions, c.dim, 10000.0);
  for (double& value : table) value = round_to(c.table, round_to(DType::kF32, value));
  OpCase<op::Rope<Tensor>> test{.name = std::to_string(c.rows) + " rows, " + std::to_string(c.total) + " heads of " +
                                        std::to_string(c.dim) + ", " + std::string(dtype_name(c.dtype)) +
                                        ", angles in " + std::string(dtype_name(c.table)),
                                .op = {.qkv = shape_only(c.dtype, {c.rows, int64_t{c.total} * c.dim}),
                                       .table = shape_only(c.table, {num_positions, c.dim}),
                                       .positions = shape_only(DType::kI32, {c.rows}),
                                       .abs_max = {},
                                       .num_rotated_heads = c.rotated,
                                       .num_heads_total = c.total,
                                       .head_dim = c.dim,
                                       .inverse = c.inverse},
                                .inputs = {.tensors = {{"table", table}, {"positions", positions}}, .state = {}}};
  fill_at_random(test, seed);
  return test;
}

/// Every shared case in both dtypes and directions, and forward with angles kept in 16 bits.
inline std::vector<OpCase<op::Rope<Tensor>>> rope_cases() {
  std::vector<OpCase<op::Rope<Tensor>>> cases;
  for (RopeCase c : kRopeCases) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const bool inverse : {false, true}) {
        c.dtype = dtype;
        c.inverse = inverse;
        for (const DType table : {DType::kF32, DType::kBF16, DType::kF16}) {
          if (inverse && table != DType::kF32) continue;
          c.table = table;
          cases.push_back(rope_case(c, random_integers(c.rows, 1, 300), 300, 2));
        }
      }
    }
  }
  return cases;
}

}  // namespace litespark::test
