// SPDX-License-Identifier: Apache-2.0
// Additions of one tensor to another for the tests of every backend: exact, one rounding an element.
#pragma once

#include <string>
#include <vector>

#include "support/op_case.h"

namespace litespark::test {

struct AddCase {
  OpCase<op::Add<Tensor>> test;
  std::vector<double> sum;  ///< what must come out
};

/// Lengths around those of vectors and blocks, for each dtype.
inline std::vector<AddCase> add_cases() {
  std::vector<AddCase> cases;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t size : {0, 1, 7, 8, 9, 15, 16, 17, 100, 40000}) {
      AddCase& added = cases.emplace_back(
          AddCase{.test = {.name = "add " + std::to_string(size),
                           .op = {.sum = shape_only(DType::kF32, {size}), .x = shape_only(dtype, {size})},
                           .inputs = {}},
                  .sum = {}});
      fill_at_random(added.test, 21);
      added.sum = added.test.inputs.at("sum");
      for (size_t i = 0; i < added.sum.size(); ++i) added.sum[i] += added.test.inputs.at("x")[i];
    }
  }
  return cases;
}

}  // namespace litespark::test
