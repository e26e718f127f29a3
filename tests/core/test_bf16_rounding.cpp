// SPDX-License-Identifier: Apache-2.0
// The split loses nothing, and stochastic rounding is unbiased.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/bf16_rounding.h"

namespace litespark {
namespace {

TEST(Bf16Rounding, SplitAndJoinGiveEveryLowHalfBack) {
  // All low halves beside high halves of every kind: zero, denormal, odd and even mantissas, the largest, infinity.
  for (const uint32_t high :
       {0x0000u, 0x0001u, 0x007fu, 0x0080u, 0x3f80u, 0x3f81u, 0x3fffu, 0x7f7fu, 0x8000u, 0xbf80u, 0xbf7fu, 0xff7fu}) {
    for (uint32_t low = 0; low <= 0xffffu; ++low) {
      const uint32_t bits = (high << 16) | low;
      const SplitFloat split = split_float(std::bit_cast<float>(bits));
      ASSERT_EQ(std::bit_cast<uint32_t>(join_float(split.weight, split.remainder)), bits);
    }
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity}) {
    const SplitFloat split = split_float(value);
    EXPECT_EQ(to_float(split.weight), value);
    EXPECT_EQ(join_float(split.weight, split.remainder), value);
  }
}

TEST(Bf16Rounding, TheWeightIsTheNearestWithTiesAwayFromZero) {
  for (const float sign : {1.0f, -1.0f}) {
    EXPECT_EQ(to_float(split_float(sign * 1.0f).weight), sign * 1.0f);
    EXPECT_EQ(to_float(split_float(sign * (1.0f + 0x1.0p-8f)).weight), sign * (1.0f + 0x1.0p-7f));
    EXPECT_EQ(to_float(split_float(sign * (1.0f + 0x1.8p-7f)).weight), sign * (1.0f + 0x1.0p-6f));
    EXPECT_EQ(to_float(split_float(sign * (1.0f + 0x1.fffp-9f)).weight), sign * 1.0f);
  }
  // Elsewhere it is what rounding to nearest even gives.
  const RandomStream random(1, 2);
  for (uint64_t i = 0; i < 100000; ++i) {
    const auto value = static_cast<float>(random.normal(i));
    if ((std::bit_cast<uint32_t>(value) & 0xffffu) == 0x8000u) continue;
    ASSERT_EQ(split_float(value).weight.bits, to_bf16(value).bits);
  }
}

TEST(Bf16Rounding, NanStaysNan) {
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u}) {
    const float nan = std::bit_cast<float>(bits);
    const SplitFloat split = split_float(nan);
    EXPECT_TRUE(std::isnan(to_float(split.weight)));
    EXPECT_TRUE(std::isnan(join_float(split.weight, split.remainder)));
    EXPECT_TRUE(std::isnan(to_float(to_bf16_stochastic(nan, 0xffff))));
  }
}

TEST(Bf16Rounding, StochasticRoundingTakesANeighbourAndLeavesBf16ValuesAlone) {
  const float value = 1.0f + 0x1.0p-9f;
  EXPECT_EQ(to_float(to_bf16_stochastic(value, 0)), 1.0f);
  EXPECT_EQ(to_float(to_bf16_stochastic(value, 0xffff)), 1.0f + 0x1.0p-7f);
  for (const float exact : {0.0f, 1.0f, -1.5f, 0x1.0p-126f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(to_float(to_bf16_stochastic(exact, 0xffff)), exact);
  }
}

// Every noise once: the mean is the value to the last bit, whatever the sign and the exponent.
TEST(Bf16Rounding, OverAllNoiseTheMeanIsTheValue) {
  for (const float value : {1.0f + 0x1.234p-9f, -3.7f, 1e-30f, 0.1f, -0x1.fffffep-100f, 1.99999f}) {
    double sum = 0;
    for (uint32_t noise = 0; noise <= 0xffffu; ++noise) {
      sum += static_cast<double>(to_float(to_bf16_stochastic(value, static_cast<uint16_t>(noise))));
    }
    EXPECT_DOUBLE_EQ(sum / 65536.0, static_cast<double>(value));
  }
}

// fault:C12: the mean of n roundings lies within 5 sigma / sqrt(n), over elements and over steps; sigma of one rounding
// is at most half a step of bf16.
TEST(Bf16Rounding, PhiloxNoiseIsUnbiasedOverElementsAndOverSteps) {
  constexpr uint64_t kBlocks = 50000;
  const float value = 1.0f + 0.3f * 0x1.0p-7f;
  for (const bool over_steps : {false, true}) {
    for (const NoiseUse use : {NoiseUse::kMoments, NoiseUse::kWeights}) {
      double low = 0, high = 0;
      for (uint64_t i = 0; i < kBlocks; ++i) {
        for (const uint32_t word : rounding_noise(7, over_steps ? i : 3, use, over_steps ? 5 : i)) {
          low += static_cast<double>(to_float(to_bf16_stochastic(value, static_cast<uint16_t>(word))));
          high += static_cast<double>(to_float(to_bf16_stochastic(value, static_cast<uint16_t>(word >> 16))));
        }
      }
      const double limit = 5.0 * 0x1.0p-8 / std::sqrt(4.0 * kBlocks);
      EXPECT_NEAR(low / (4.0 * kBlocks), static_cast<double>(value), limit);
      EXPECT_NEAR(high / (4.0 * kBlocks), static_cast<double>(value), limit);
    }
  }
}

TEST(Bf16Rounding, NoiseDependsOnSeedStepUseAndElement) {
  const auto reference = rounding_noise(1, 2, NoiseUse::kMoments, 3);
  EXPECT_EQ(reference, rounding_noise(1, 2, NoiseUse::kMoments, 3));
  EXPECT_NE(reference, rounding_noise(2, 2, NoiseUse::kMoments, 3));
  EXPECT_NE(reference, rounding_noise(1, 3, NoiseUse::kMoments, 3));
  EXPECT_NE(reference, rounding_noise(1, 2, NoiseUse::kWeights, 3));
  EXPECT_NE(reference, rounding_noise(1, 2, NoiseUse::kMoments, 4));
}

}  // namespace
}  // namespace litespark
