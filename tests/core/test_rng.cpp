// SPDX-License-Identifier: Apache-2.0
// Philox against the known answers of its authors (Random123's kat_vectors), and the distributions built on it.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/rng.h"

namespace litespark {
namespace {

TEST(Philox, GivesTheKnownAnswersOfItsAuthors) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, NormalValuesHaveZeroMeanAndUnitVariance) {
  const RandomStream random(7, 3);
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double value = random.normal(i);
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 5.0 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
  EXPECT_NEAR(fourth / kCount, 3.0, 0.15);
}

TEST(RandomStream, BelowReachesEveryValueAboutEquallyOften) {
  const RandomStream random(1, 2);
  std::vector<int> counts(10, 0);
  for (uint64_t i = 0; i < 100000; ++i) ++counts.at(random.below(i, 10));
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(RandomStream, SeedsStreamsAndIndicesGiveDifferentBits) {
  const RandomStream random(1, 2);
  EXPECT_NE(random.bits(0), random.bits(1));
  EXPECT_NE(random.bits(0), RandomStream(2, 2).bits(0));
  EXPECT_NE(random.bits(0), RandomStream(1, 3).bits(0));
  EXPECT_NE(random.bits(0), random.bits(uint64_t{1} << 40));  // fault:C15: counters past 2^32
  EXPECT_EQ(random.bits(5), RandomStream(1, 2).bits(5));
}

TEST(RandomStream, UniformNeverIsZeroAndNeverExceedsOne) {
  const RandomStream random(3, 4);
  for (uint64_t i = 0; i < 10000; ++i) {
    const double value = random.uniform(i);
    EXPECT_GT(value, 0.0);
    EXPECT_LE(value, 1.0);
  }
}

}  // namespace
}  // namespace litespark
