// SPDX-License-Identifier: Apache-2.0
// Optimizer cases for the tests of every backend.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/checked.h"
#include "reference/optimizer.h"
#include "support/op_case.h"

namespace litespark::test {

/// Around the vectors of every backend.
inline constexpr int64_t kAdamWSizes[] = {1, 3, 4, 5, 15, 16, 17, 1000, 1023, 50001};

/// A step that goes through: 100 tokens, gradient norm 2.
inline StepState good_state() {
  return {.learning_rate = 1e-3f,
          .clip_norm = 1,
          .spike_limit = 10,
          .loss_sum = 250,
          .supervised_tokens = 100,
          .gradient_square_sum = 200.0 * 200.0,
          .optimizer_steps = 4,
          .skipped_steps = 1};
}

/// Values that bf16 holds whatever `dtype` is, so that the sums of both dtypes are those of the same numbers.
inline OpCase<op::GradientSquareSum<Tensor>> bf16_values_square_sum_case(DType dtype) {
  OpCase<op::GradientSquareSum<Tensor>> test{.name = "bf16 values",
                                             .op = {.state = state_shape(),
                                                    .gradient = shape_only(DType::kBF16, {40001}),
                                                    .partials = shape_only(DType::kF64, {3})},
                                             .inputs = {}};
  fill_at_random(test, 19);
  test.op.gradient = shape_only(dtype, {40001});
  return test;
}

inline OpCase<op::GradientSquareSum<Tensor>> square_sum_case(int64_t size, double factor = 1) {
  OpCase<op::GradientSquareSum<Tensor>> test{
      .name = std::to_string(size),
      .op = {.state = state_shape(),
             .gradient = shape_only(DType::kF32, {size}),
             .partials = shape_only(DType::kF64, {ceil_div(size, op::kSquareSumBlock)}),
             .factor = factor},
      .inputs = {}};
  fill_at_random(test, 19);
  test.inputs.state.gradient_square_sum = 5;
  return test;
}

/// `limit`: relative.
template <class Execute>
void expect_square_sum_by_factor(const Execute& run, double limit) {
  const auto test = square_sum_case(20000, 3);
  const double expected = reference::evaluate<double>(test.op, test.inputs).state.gradient_square_sum;
  EXPECT_NEAR(run(test).outputs.state.gradient_square_sum / expected, 1.0, limit);
}

/// A factor that is a power of two scales exactly: as if every gradient were so much larger.
template <class Execute>
void expect_part_to_stand_for_the_whole(const Execute& run) {
  auto part = adamw_case(300, false);
  auto whole = part;
  part.op.gradient_factor = 4;
  for (double& value : whole.inputs.tensors["gradient"]) value *= 4;
  for (const char* name : {"master", "first_moment", "second_moment"}) {
    EXPECT_EQ(run(part).outputs.at(name), run(whole).outputs.at(name)) << name;
  }
}

}  // namespace litespark::test
