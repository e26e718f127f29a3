// SPDX-License-Identifier: Apache-2.0
// The kernels behind their tables: accuracy of the exponential, equal bits of AVX2 and AVX-512, lengths around 16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/kernel_table.h"
#include "ops/cpu_conformance.h"
#include "support/tolerance.h"

namespace litespark::test {
namespace {

using cpu::kernel_table;
using cpu::KernelTable;

std::vector<float> floats_of(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

std::vector<double> doubles_of(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// exp of every element: the softmax gradient with maximum 0 and scale 1, the label's element put aside.
std::vector<float> exponentials(const KernelTable& table, std::vector<float> x) {
  x.push_back(0.0f);
  const int64_t size = static_cast<int64_t>(x.size());
  table.softmax_gradient[0]({.logits = x.data(), .size = size, .label = size - 1, .maximum = 0.0f, .scale = 1.0f});
  x.pop_back();
  return x;
}

TEST(KernelTable, ExponentialIsWithinTwoRoundingsAndUnbiased) {
  for (const CpuIsa isa : usable_isas()) {
    std::vector<float> x;
    for (int i = 0; i < 200000; ++i) x.push_back(-87.0f + 175.0f * static_cast<float>(i) / 200000.0f);
    const std::vector<float> result = exponentials(kernel_table(isa), x);
    double largest = 0;
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double truth = std::exp(static_cast<double>(x[i]));
      const double error = (static_cast<double>(result[i]) - truth) / truth;
      largest = std::max(largest, std::abs(error));
      sum += error;
    }
    EXPECT_LT(largest, 2.0 * 0x1p-24) << static_cast<int>(isa);
    EXPECT_LT(std::abs(sum / static_cast<double>(x.size())), 1e-9) << static_cast<int>(isa);
  }
}

TEST(KernelTable, ExponentialEndsAtZeroAndInfinity) {
  for (const CpuIsa isa : usable_isas()) {
    const std::vector<float> result =
        exponentials(kernel_table(isa), {-INFINITY, -1e30f, -200, 0, -0.0f, 89, 1e30f, INFINITY, NAN});
    EXPECT_EQ(result[0], 0);
    EXPECT_EQ(result[1], 0);
    EXPECT_EQ(result[2], 0);
    EXPECT_EQ(result[3], 1);
    EXPECT_EQ(result[4], 1);
    EXPECT_TRUE(std::isinf(result[5]) && std::isinf(result[6]) && std::isinf(result[7]));
    EXPECT_TRUE(std::isnan(result[8]));
  }
}

TEST(KernelTable, SoftmaxStatisticsOfALongRowLoseNothing) {
  const std::vector<float> logits = floats_of(random_normal(DType::kF32, 128256, 20, 3));
  double maximum = -INFINITY;
  for (const float logit : logits) maximum = std::max(maximum, static_cast<double>(logit));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - maximum);
  for (const CpuIsa isa : usable_isas()) {
    const auto statistics = kernel_table(isa).softmax_statistics[0](logits.data(), 128256);
    EXPECT_EQ(static_cast<double>(statistics.maximum), maximum);
    EXPECT_NEAR(statistics.sum / sum, 1.0, 2e-7);
  }
}

TEST(KernelTable, EveryLengthTouchesItsElementsOnly) {
  for (const CpuIsa isa : usable_isas()) {
    for (int64_t size = 0; size <= 50; ++size) {
      std::vector<float> to(64, 1.0f);
      const std::vector<float> from(64, 2.0f);
      kernel_table(isa).add[0](to.data(), from.data(), size);
      for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(to[static_cast<size_t>(i)], i < size ? 3.0f : 1.0f) << size;
    }
  }
}

TEST(KernelTable, SquareSumHasTheSameBitsEverywhere) {
  for (const int64_t size : {0, 1, 15, 16, 17, 1000}) {
    const std::vector<float> values = floats_of(random_normal(DType::kF32, size, 21));
    const double expected = kernel_table(CpuIsa::kGeneric).square_sum[0](values.data(), size);
    double plain = 0;
    for (const double value : doubles_of(values)) plain += value * value;
    EXPECT_NEAR(expected, plain, 1e-12 * plain);
    for (const CpuIsa isa : usable_isas()) EXPECT_EQ(kernel_table(isa).square_sum[0](values.data(), size), expected);
  }
}

}  // namespace
}  // namespace litespark::test
