// SPDX-License-Identifier: Apache-2.0
// Conversions are exact roundings, special values included.
#include <cmath>

#include "ops/add_cases.h"
#include "ops/cpu_conformance.h"

namespace litespark::test {
namespace {

OpCase<op::Convert<Tensor>> convert_case(DType from, DType to, std::vector<double> values) {
  const int64_t size = static_cast<int64_t>(values.size());
  return {.name = std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)),
          .op = {.out = shape_only(to, {size}), .x = shape_only(from, {size})},
          .inputs = {.tensors = {{"x", std::move(values)}}, .state = {}}};
}

TEST(Convert, RoundsOnceInEveryDirectionAndSize) {
  for (const DType from : {DType::kF32, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kBF16}) {
      for (const int64_t size : {0, 1, 15, 16, 17, 31, 100, 40000}) {
        const auto test = convert_case(from, to, random_normal(from, size, 9));
        expect_exact(test.name, execute_on_cpu(test), {.tensors = {{"out", test.inputs.at("x")}}, .state = {}});
      }
    }
  }
}

TEST(Convert, KeepsTiesDenormalsInfinitiesAndNan) {
  // 1 + 2^-8 and 1 + 3 * 2^-8 lie between two bf16 values: ties go to the even one. 3.4e38 rounds to infinity.
  std::vector<double> values = {1 + 0x1p-8, 1 + 0x3p-8, -1 - 0x1p-8, 0x1p-149, 0x1p-133, -0x1.8p-130,  3.4e38, -3.4e38,
                                INFINITY,   -INFINITY,  0.0,         -0.0,     0x1p-126, 0x1.fffp-127, 65504,  1e-40};
  const auto test = convert_case(DType::kF32, DType::kBF16, values);
  const Execution execution = execute_on_cpu(test);
  expect_exact(test.name, execution, {.tensors = {{"out", values}}, .state = {}});
  EXPECT_EQ(execution.outputs.at("out")[0], 1.0);
  EXPECT_EQ(execution.outputs.at("out")[1], 1 + 0x1p-6);
  const auto nan = convert_case(DType::kF32, DType::kBF16, std::vector<double>(17, NAN));
  const Execution nan_execution = execute_on_cpu(nan);
  for (const double value : nan_execution.outputs.at("out")) EXPECT_TRUE(std::isnan(value));
}

TEST(Convert, AddAddsEveryElementOnce) {
  for (const AddCase& c : add_cases())
    expect_exact(c.test.name, execute_on_cpu(c.test), {.tensors = {{"sum", c.sum}}, .state = {}});
}

}  // namespace
}  // namespace litespark::test
