// SPDX-License-Identifier: Apache-2.0
// Bringing copies together, on any backend.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "core/checked.h"
#include "support/op_case.h"

namespace litespark::test {

inline constexpr int64_t kCopySizes[] = {1, 257, 16384, 50001};

/// Copies of three ranks, of which this is one: their sum is drawn like a copy of its own.
inline OpCase<op::MeanOfCopies<Tensor>> copies_case(int64_t size, bool measures) {
  const int64_t blocks = ceil_div(size, op::kSquareSumBlock);
  OpCase<op::MeanOfCopies<Tensor>> test{.name = std::to_string(size),
                                        .op = {.copy = shape_only(DType::kF32, {size}),
                                               .sum = shape_only(DType::kF32, {size}),
                                               .state = measures ? state_shape() : Tensor{},
                                               .partials = measures ? shape_only(DType::kF64, {2 * blocks}) : Tensor{},
                                               .ranks = 3},
                                        .inputs = {}};
  fill_at_random(test, 23);
  test.inputs.state.copy_drift = 7;
  return test;
}

template <class Execute>
void expect_means_and_drift(const Execute& run) {
  for (const int64_t size : kCopySizes) {
    const auto test = copies_case(size, true);
    const Execution execution = run(test);
    double distance = 0;
    double square = 0;
    for (size_t i = 0; i < static_cast<size_t>(size); ++i) {
      const double mean = static_cast<float>(test.inputs.at("sum")[i] / 3.0);
      ASSERT_EQ(execution.outputs.at("copy")[i], mean) << size << ", element " << i;
      distance += (test.inputs.at("copy")[i] - mean) * (test.inputs.at("copy")[i] - mean);
      square += mean * mean;
    }
    EXPECT_NEAR(execution.outputs.state.copy_drift / std::sqrt(distance / square), 1.0, 1e-12) << size;
  }
}

template <class Execute>
void expect_only_means_without_a_state(const Execute& run) {
  const Execution execution = run(copies_case(300, false));
  const auto measured = run(copies_case(300, true));
  EXPECT_EQ(execution.outputs.at("copy"), measured.outputs.at("copy"));
}

template <class Execute>
void expect_no_drift_of_equal_copies(const Execute& run) {
  for (const double value : {1.5, 0.0}) {
    auto test = copies_case(20, true);
    test.inputs.tensors["copy"].assign(20, value);
    test.inputs.tensors["sum"].assign(20, 3 * value);
    const Execution execution = run(test);
    EXPECT_EQ(execution.outputs.at("copy"), test.inputs.at("copy"));
    EXPECT_EQ(execution.outputs.state.copy_drift, 0.0);
  }
}

template <class Execute>
void expect_a_nan_to_show_as_drift(const Execute& run) {
  auto test = copies_case(20, true);
  test.inputs.tensors["copy"][7] = NAN;
  EXPECT_TRUE(std::isnan(run(test).outputs.state.copy_drift));
}

}  // namespace litespark::test
