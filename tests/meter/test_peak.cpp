// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "meter/peak.h"

namespace litespark {
namespace {

TEST(Peak, IsTheDenseOneOfTheBoard) {  // report:B39
  EXPECT_DOUBLE_EQ(gpu_peak("cuda (NVIDIA H200, sm_90)", DType::kBF16).value().flops_per_second, 989.4e12);
  EXPECT_DOUBLE_EQ(gpu_peak("NVIDIA H100 80GB HBM3", DType::kBF16).value().flops_per_second, 989.4e12);
  EXPECT_DOUBLE_EQ(gpu_peak("NVIDIA H100 PCIe", DType::kBF16).value().flops_per_second, 756e12);
}

TEST(Peak, OfAnUnknownBoardOrDtypeIsUnknown) {  // report:B39
  EXPECT_FALSE(gpu_peak("NVIDIA Something", DType::kBF16).has_value());
  EXPECT_FALSE(gpu_peak("NVIDIA H200", DType::kF32).has_value());
}

TEST(Peak, UtilizationIsTheShareOfThePeak) {  // report:B39
  const PeakRate peak{.flops_per_second = 2e12, .source = "test"};
  EXPECT_DOUBLE_EQ(model_flops_utilization(3e12, 2.0, peak).value(), 0.75);
  EXPECT_FALSE(model_flops_utilization(3e12, 2.0, std::nullopt).has_value());
  EXPECT_FALSE(model_flops_utilization(3e12, 0.0, peak).has_value());
}

}  // namespace
}  // namespace litespark
