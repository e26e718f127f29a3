// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "dist/ordered_reduce.h"

namespace litespark::dist {
namespace {

TEST(OrderedReduce, AddsInTheOrderOfTheInputs) {
  // In f32 (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1, so the order shows.
  const float big = 1e8f;
  const float one = 1;
  const float minus = -1e8f;
  float sum = -1;
  reduce_in_order(&sum, std::array<const void*, 3>{&big, &one, &minus}, 1, DType::kF32, Reduction::kSum);
  EXPECT_EQ(sum, 0);
  reduce_in_order(&sum, std::array<const void*, 3>{&big, &minus, &one}, 1, DType::kF32, Reduction::kSum);
  EXPECT_EQ(sum, 1);
}

TEST(OrderedReduce, RoundsSumsOfBf16Once) {
  // 256 + 1 rounds back to 256 in bf16; eight ones in f32 make 264 exactly.
  std::array<bf16, 9> values;
  values.fill(to_bf16(1));
  values[0] = to_bf16(256);
  std::vector<const void*> inputs;
  for (const bf16& value : values) inputs.push_back(&value);
  bf16 sum;
  reduce_in_order(&sum, inputs, 1, DType::kBF16, Reduction::kSum);
  EXPECT_EQ(to_float(sum), 264);
}

TEST(OrderedReduce, GivesTheSameOverAnInput) {
  for (const int64_t count : {int64_t{1}, int64_t{2047}, int64_t{2048}, int64_t{2049}, int64_t{7000}}) {
    std::vector<double> a(static_cast<size_t>(count));
    std::vector<double> b(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = std::sin(static_cast<double>(i));
      b[i] = std::cos(static_cast<double>(i));
    }
    std::vector<double> expected(a.size());
    for (size_t i = 0; i < a.size(); ++i) expected[i] = a[i] + b[i];
    reduce_in_order(b.data(), std::array<const void*, 2>{a.data(), b.data()}, count, DType::kF64, Reduction::kSum);
    EXPECT_EQ(b, expected) << count;
  }
}

TEST(OrderedReduce, TheLargestOfValuesWithANanIsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<std::array<float, 2>, 3> rows = {{{1, nan}, {nan, 5}, {2, 6}}};
  std::array<float, 2> out = {};
  for (const auto& order : {std::array{0, 1, 2}, std::array{1, 0, 2}, std::array{2, 1, 0}, std::array{2, 0, 1}}) {
    std::vector<const void*> inputs;
    for (const int row : order) inputs.push_back(rows[static_cast<size_t>(row)].data());
    reduce_in_order(out.data(), inputs, 2, DType::kF32, Reduction::kMax);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
  }
}

TEST(OrderedReduce, RefusesWholeNumbers) {
  int32_t value = 1;
  EXPECT_THROW(reduce_in_order(&value, std::array<const void*, 1>{&value}, 1, DType::kI32, Reduction::kSum),
               InternalError);
}

}  // namespace
}  // namespace litespark::dist
