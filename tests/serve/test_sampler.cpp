// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "serve/sampler.h"

namespace litespark {
namespace {

const std::vector<float> kLogits = {0.0f, std::log(4.0f), std::log(2.0f), std::log(1.0f), std::log(3.0f)};  // 1 4 2 1 3

std::map<int32_t, int> counts(const SamplerOptions& options, int draws = 20000) {
  Sampler sampler(options);
  std::map<int32_t, int> seen;
  for (int draw = 0; draw < draws; ++draw) ++seen[sampler.sample(kLogits, static_cast<uint64_t>(draw))];
  return seen;
}

TEST(Sampler, DrawsByTheProbabilities) {
  const auto seen = counts({});
  EXPECT_NEAR(seen.at(1), 20000 * 4 / 11, 300);
  EXPECT_NEAR(seen.at(4), 20000 * 3 / 11, 300);
  EXPECT_NEAR(seen.at(0), 20000 * 1 / 11, 200);
}

TEST(Sampler, TemperatureZeroTakesTheMostLikelyAndTiesTheLowestId) {
  EXPECT_EQ(counts({.temperature = 0}).size(), 1u);
  Sampler sampler({.temperature = 0});
  EXPECT_EQ(sampler.sample(std::vector<float>{1.0f, 3.0f, 3.0f}, 0), 1);
}

TEST(Sampler, LowTemperatureSharpens) {
  EXPECT_GT(counts({.temperature = 0.25}).at(1), counts({.temperature = 1}).at(1) * 3 / 2);
}

TEST(Sampler, TopKKeepsTheKMostLikely) {
  const auto seen = counts({.top_k = 2});
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_NEAR(seen.at(1), 20000 * 4 / 7, 300);
  EXPECT_TRUE(seen.contains(4));
}

TEST(Sampler, TopPKeepsTheSmallestSetOfThatProbability) {
  EXPECT_EQ(counts({.top_p = 0.36}).size(), 1u);  // 4/11 = 0.364
  EXPECT_EQ(counts({.top_p = 0.37}).size(), 2u);
  EXPECT_EQ(counts({.top_p = 0.99}).size(), 5u);
}

TEST(Sampler, MinPIsAShareOfTheMostLikely) {
  EXPECT_EQ(counts({.min_p = 0.6}).size(), 2u);  // 4, 3
  EXPECT_EQ(counts({.min_p = 0.49}).size(), 3u);
  EXPECT_EQ(counts({.min_p = 1.0}).size(), 1u);
}

TEST(Sampler, TheSeedDecides) {
  Sampler a({.seed = 7}), b({.seed = 7}), c({.seed = 8});
  int different = 0;
  for (uint64_t draw = 0; draw < 200; ++draw) {
    const int32_t token = a.sample(kLogits, draw);
    EXPECT_EQ(token, b.sample(kLogits, draw));
    different += token != c.sample(kLogits, draw);
  }
  EXPECT_GT(different, 50);
}

TEST(Sampler, IgnoresLogitsThatAreNotFiniteAndRefusesWhenNoneIs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Sampler sampler({.temperature = 0});
  EXPECT_EQ(sampler.sample(std::vector<float>{nan, -1.0f, -2.0f}, 0), 1);
  EXPECT_THROW(sampler.sample(std::vector<float>{nan, nan}, 0), NumericError);
}

TEST(Sampler, RefusesOptionsByName) {
  EXPECT_THROW(Sampler({.temperature = -1}), ConfigError);
  EXPECT_THROW(Sampler({.temperature = std::nan("")}), ConfigError);
  EXPECT_THROW(Sampler({.top_k = -1}), ConfigError);
  EXPECT_THROW(Sampler({.top_p = 0}), ConfigError);
  EXPECT_THROW(Sampler({.top_p = 1.5}), ConfigError);
  EXPECT_THROW(Sampler({.min_p = 2}), ConfigError);
}

}  // namespace
}  // namespace litespark
