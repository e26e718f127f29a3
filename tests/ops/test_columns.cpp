// SPDX-License-Identifier: Apache-2.0
// Columns as a matrix of their own, and two matrices beside each other: exact but for the rounding to bf16.
#include "ops/columns_cases.h"
#include "ops/cpu_conformance.h"

namespace litespark::test {
namespace {

TEST(Columns, AreTakenOutAsTheyAre) {
  for (const auto& [test, expected] : take_columns_cases()) {
    for (const int threads : {1, 3})
      expect_exact(test.name, execute(cpu_backend(detect_cpu_isa(), threads), test), expected);
  }
}

TEST(Columns, AreJoinedRowByRowAndRoundedOnce) {
  for (const auto& [test, expected] : join_columns_cases()) {
    for (const CpuIsa isa : usable_isas()) expect_exact(test.name, execute(cpu_backend(isa, 2), test), expected);
  }
}

TEST(Columns, OutsideTheMatrixAreRefused) {
  const Tensor x = shape_only(DType::kF32, {4, 10});
  const auto take = [&](int64_t first) {
    return op::TakeColumns<Tensor>{.out = shape_only(DType::kF32, {4, 3}), .x = x, .first_column = first};
  };
  EXPECT_NO_THROW(validate(take(7)));
  EXPECT_THROW(validate(take(8)), InternalError);
  EXPECT_THROW(validate(take(-1)), InternalError);
}

}  // namespace
}  // namespace litespark::test
