// SPDX-License-Identifier: Apache-2.0
// Columns as a matrix of their own, and two matrices beside each other: exact but for the rounding to bf16.
#include "ops/cpu_conformance.h"

namespace litespark::test {
namespace {

TEST(Columns, AreTakenOutAsTheyAre) {
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
      for (const int threads : {1, 3})
        expect_exact(test.name, execute(cpu_backend(detect_cpu_isa(), threads), test), expected);
    }
  }
}

TEST(Columns, AreJoinedRowByRowAndRoundedOnce) {
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
      for (const CpuIsa isa : usable_isas()) expect_exact(test.name, execute(cpu_backend(isa, 2), test), expected);
    }
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
