// SPDX-License-Identifier: Apache-2.0
// Columns taken out of a matrix and joined, with what must come out: exact but for the rounding to bf16.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "support/op_case.h"

namespace litespark::test {

template <class Op>
struct ColumnsCase {
  OpCase<Op> test;
  Values expected;
};

inline std::vector<ColumnsCase<op::TakeColumns<Tensor>>> take_columns_cases() {
  std::vector<ColumnsCase<op::TakeColumns<Tensor>>> cases;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, columns, first, count] :
         {std::array<int64_t, 4>{1, 1, 0, 1}, {130, 37, 12, 9}, {65, 96, 64, 32}, {3, 20, 0, 20}}) {
      OpCase<op::TakeColumns<Tensor>> test{.name = "columns " + std::to_string(first),
                                           .op = {.out = shape_only(dtype, {rows, count}),
                                                  .x = shape_only(dtype, {rows, columns}),
                                                  .first_column = first},
                                           .inputs = {}};
      fill_at_random(test, 1);
      Values expected;
      for (int64_t row = 0; row < rows; ++row) {
        const auto begin = test.inputs.at("x").begin() + row * columns + first;
        expected.tensors["out"].insert(expected.tensors["out"].end(), begin, begin + count);
      }
      cases.push_back({.test = test, .expected = expected});
    }
  }
  return cases;
}

inline std::vector<ColumnsCase<op::JoinColumns<Tensor>>> join_columns_cases() {
  std::vector<ColumnsCase<op::JoinColumns<Tensor>>> cases;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, left, right] : {std::array<int64_t, 3>{1, 1, 1}, {131, 40, 23}, {64, 16, 48}}) {
      OpCase<op::JoinColumns<Tensor>> test{.name = "join " + std::to_string(left) + " " + std::to_string(right),
                                           .op = {.out = shape_only(dtype, {rows, left + right}),
                                                  .left = shape_only(DType::kF32, {rows, left}),
                                                  .right = shape_only(DType::kF32, {rows, right})},
                                           .inputs = {}};
      fill_at_random(test, 2);
      Values expected;
      for (int64_t row = 0; row < rows; ++row) {
        for (const auto& [name, count] : {std::pair("left", left), std::pair("right", right)}) {
          const auto begin = test.inputs.at(name).begin() + row * count;
          for (auto value = begin; value < begin + count; ++value) {
            expected.tensors["out"].push_back(round_to(dtype, *value));
          }
        }
      }
      cases.push_back({.test = test, .expected = expected});
    }
  }
  return cases;
}

}  // namespace litespark::test
