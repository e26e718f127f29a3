// SPDX-License-Identifier: Apache-2.0
// Conversion on the GPU: exact, ties to even, special values kept, any length.
#include <cmath>
#include <limits>

#include "ops/add_cases.h"
#include "ops/cuda/cuda_conformance.h"

namespace litespark::test {
namespace {

TEST(Convert, RoundsOnceAtAnyLength) {
  for (const DType from : {DType::kF32, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kBF16}) {
      for (const int64_t size : {1, 7, 8, 9, 2048, 2049, 100001}) {
        OpCase<op::Convert<Tensor>> test{.name = std::to_string(size),
                                         .op = {.out = shape_only(to, {size}), .x = shape_only(from, {size})},
                                         .inputs = {}};
        fill_at_random(test, 6);
        EXPECT_EQ(execute_on_cuda(test).bytes.at("out"), encode(to, test.inputs.at("x"))) << test.name;
      }
    }
  }
}

TEST(Convert, KeepsSpecialValues) {
  const double infinity = std::numeric_limits<double>::infinity();
  OpCase<op::Convert<Tensor>> test{
      .name = "special", .op = {.out = shape_only(DType::kBF16, {8}), .x = shape_only(DType::kF32, {8})}, .inputs = {}};
  // Ties to even at 1 + 2^-8 and 1 + 3 * 2^-8, the overflow to infinity, the smallest f32.
  test.inputs.tensors["x"] = {infinity, -infinity, NAN, -0.0, 1.00390625, 1.01171875, 3.4e38, 0x1p-149};
  const std::vector<double> out = execute_on_cuda(test).outputs.at("out");
  EXPECT_EQ(out[0], infinity);
  EXPECT_EQ(out[1], -infinity);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_TRUE(std::signbit(out[3]) && out[3] == 0);
  EXPECT_EQ(out[4], 1.0);
  EXPECT_EQ(out[5], 1.015625);
  EXPECT_EQ(out[6], infinity);
  EXPECT_EQ(out[7], 0.0);
}

TEST(Convert, AddAddsEveryElementOnce) {
  for (const AddCase& c : add_cases())
    expect_exact(c.test.name, execute_on_cuda(c.test), {.tensors = {{"sum", c.sum}}, .state = {}});
}

}  // namespace
}  // namespace litespark::test
