// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "dist/tier_policy.h"

namespace litespark::dist {
namespace {

constexpr Tier kAll[] = {Tier::kSharded, Tier::kMulticast, Tier::kOneSided};

TEST(TierPolicy, FollowsItsThresholds) {
  const TierPolicy policy({{1000000, Tier::kMulticast}, {10000000, Tier::kOneSided}});
  EXPECT_EQ(policy.tier(0), Tier::kMulticast);
  EXPECT_EQ(policy.tier(999999), Tier::kMulticast);
  EXPECT_EQ(policy.tier(1000000), Tier::kOneSided);
  EXPECT_EQ(policy.tier(9999999), Tier::kOneSided);
  EXPECT_EQ(policy.tier(10000000), Tier::kSharded);
  EXPECT_EQ(policy.tier(int64_t{1} << 50), Tier::kSharded);
  EXPECT_EQ(policy.text(), "multicast below 1.0 MB, one-sided below 10.0 MB, sharded from there on");
  EXPECT_EQ(TierPolicy().text(), "sharded");
}

TEST(TierPolicy, RefusesRangesThatDoNotAscend) {
  EXPECT_THROW(TierPolicy({{10, Tier::kMulticast}, {10, Tier::kOneSided}}), InternalError);
  EXPECT_THROW(TierPolicy({{0, Tier::kMulticast}}), InternalError);
}

TEST(TierPolicy, WhatIsNotThereIsSharded) {
  const TierPolicy policy({{100, Tier::kMulticast}, {200, Tier::kOneSided}});
  const Tier present[] = {Tier::kMulticast};
  const TierPolicy narrowed = policy.among(present);
  EXPECT_EQ(narrowed.tier(50), Tier::kMulticast);
  EXPECT_EQ(narrowed.tier(150), Tier::kSharded);
  EXPECT_EQ(narrowed.ranges().size(), 2U);
  EXPECT_EQ(policy.among(kAll).text(), policy.text());
}

TierTimes times_of(int64_t bytes, std::vector<double> sharded, std::vector<double> multicast,
                   std::vector<double> one_sided = {}) {
  return {.bytes = bytes, .seconds = {std::move(sharded), std::move(multicast), std::move(one_sided)}};
}

TEST(TierPolicy, ComparesWithinRounds) {
  // The second round was slow for everybody; each round alone says that multicast takes half as long.
  const TierTimes times = times_of(100, {2, 20, 4}, {1, 10, 2});
  EXPECT_DOUBLE_EQ(ratio_to_sharded(times, Tier::kMulticast), 0.5);
  EXPECT_DOUBLE_EQ(ratio_to_sharded(times, Tier::kSharded), 1.0);
  EXPECT_GT(ratio_to_sharded(times, Tier::kOneSided), 1e9);
}

TEST(TierPolicy, LeavesTheUsualWayOnlyForWhatIsClearlyFasterAndSteady) {
  const std::vector<TierTimes> times = {
      times_of(4096, {10, 10, 10}, {5, 5, 5}, {4, 4, 4}), times_of(16384, {10, 10, 10}, {9, 9, 9}, {9.9, 9.9, 9.9}),
      times_of(65536, {10, 10, 10}, {9.7, 9.7, 9.7}),  // not by 5 %
      times_of(262144, {10, 10, 10}, {5, 5, 30}),      // but now and then slower
  };
  const TierPolicy policy = policy_from(times);
  EXPECT_EQ(policy.tier(4096), Tier::kOneSided);
  EXPECT_EQ(policy.tier(8191), Tier::kOneSided);
  EXPECT_EQ(policy.tier(8192), Tier::kMulticast);
  EXPECT_EQ(policy.tier(16384), Tier::kMulticast);
  EXPECT_EQ(policy.tier(65536), Tier::kSharded);
  EXPECT_EQ(policy.tier(262144), Tier::kSharded);
  EXPECT_EQ(policy.ranges().size(), 3U);
  EXPECT_EQ(policy_from({}).text(), "sharded");
}

TEST(TierSwitch, GivesWhatWasSetLast) {
  TierSwitch chosen;
  EXPECT_EQ(chosen.tier(1), Tier::kSharded);
  chosen.set(TierPolicy({{10, Tier::kMulticast}}));
  EXPECT_EQ(chosen.tier(1), Tier::kMulticast);
  EXPECT_EQ(chosen.policy().tier(10), Tier::kSharded);
}

}  // namespace
}  // namespace litespark::dist
