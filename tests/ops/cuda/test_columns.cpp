// SPDX-License-Identifier: Apache-2.0
// Columns as a matrix of their own, and two matrices beside each other, on the GPU.
#include "ops/columns_cases.h"
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

TEST(Columns, AreTakenOutAsTheyAre) {
  for (const auto& [test, expected] : take_columns_cases()) {
    expect_exact(test.name, execute_on_cuda(test), expected);
  }
}

TEST(Columns, AreJoinedRowByRowAndRoundedOnce) {
  for (const auto& [test, expected] : join_columns_cases()) {
    expect_exact(test.name, execute_on_cuda(test), expected);
  }
}

}  // namespace
}  // namespace litespark::test
