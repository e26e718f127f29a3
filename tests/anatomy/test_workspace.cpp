// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "anatomy/workspace.h"
#include "ops/cpu/cpu_backend.h"

namespace litespark::anatomy {
namespace {

TEST(Workspace, FillsTensorsWithNumbersOfBothSignsInEitherDtype) {
  const auto backend = make_cpu_backend({.threads = 1});
  Workspace workspace(*backend);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<float> values = workspace.floats(workspace.numbers(dtype, {300, 1000}, 0.5f));
    EXPECT_LT(*std::min_element(values.begin(), values.end()), -0.49f);
    EXPECT_GT(*std::max_element(values.begin(), values.end()), 0.49f);
    EXPECT_LE(*std::max_element(values.begin(), values.end()), 0.5f);
    // Longer than what is drawn: the values start again.
    EXPECT_EQ(values[0], values[1 << 18]);
  }
}

TEST(Workspace, GivesNoTensorForNoBytes) {
  const auto backend = make_cpu_backend({.threads = 1});
  Workspace workspace(*backend);
  EXPECT_FALSE(workspace.scratch(0).has_value());
  EXPECT_EQ(workspace.scratch(8).bytes(), 8);
}

TEST(Workspace, MeasuresACopy) {
  const auto backend = make_cpu_backend({.threads = 1});
  EXPECT_GT(measure_copy_rate(*backend, 4096, 0), 0);
}

}  // namespace
}  // namespace litespark::anatomy
