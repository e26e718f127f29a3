// SPDX-License-Identifier: Apache-2.0
// One case on the GPU, twice: the same inputs must give the same bits, whatever order the blocks ran in.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/cuda/cuda_backend.h"
#include "support/conformance.h"
#include "support/op_case.h"

namespace litespark::test {

/// The first GPU, opened once. Tests of this binary are skipped where there is none.
Backend& cuda_backend();

template <class Op>
Execution execute_on_cuda(const OpCase<Op>& test, Backend& backend = cuda_backend()) {
  Execution first = execute(backend, test);
  const Execution second = execute(backend, test);
  for (const auto& [name, bytes] : first.bytes) {
    if (name == "partials" || name == "scratch") continue;
    EXPECT_EQ(second.bytes.at(name), bytes) << test.name << ": " << name << " differs between two runs";
  }
  return first;
}

/// A dtype pair of the residual stream and the activations beside it.
struct DTypePair {
  DType residual, compute;
};
inline const std::vector<DTypePair> kDTypePairs = {
    {DType::kF32, DType::kF32}, {DType::kF32, DType::kBF16}, {DType::kBF16, DType::kBF16}};

inline std::string case_name(int64_t rows, int64_t columns, DTypePair dtypes) {
  return std::to_string(rows) + "x" + std::to_string(columns) + " " + std::string(dtype_name(dtypes.residual)) + "/" +
         std::string(dtype_name(dtypes.compute));
}

}  // namespace litespark::test
