// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dist/local_world.h"
#include "dist/tier_measurement.h"

namespace litespark::dist {
namespace {

constexpr Tier kTwo[] = {Tier::kSharded, Tier::kMulticast};

TEST(TierMeasurement, GivesAllRanksTheSameTimesOfEverySizeTierAndRound) {
  std::vector<std::vector<TierTimes>> found(4);
  run_local_ranks(4, {.timeout_seconds = 60}, [&](Communicator& world) {
    TierSwitch chosen;
    chosen.set(TierPolicy({{77, Tier::kMulticast}}));
    const auto between = world.split(world.rank() % 2);
    found[static_cast<size_t>(world.rank())] = measure_tiers(
        world, *between, chosen, kTwo, {.most_bytes = 64 << 10, .rounds = 5, .size_seconds = 0, .seconds = 60});
    EXPECT_EQ(chosen.policy().ranges().front().below_bytes, 77);
    EXPECT_GT(sharded_gather_seconds(world, *between, chosen, 1 << 16), 0);
  });
  ASSERT_EQ(found[0].size(), 3U);
  for (size_t size = 0; size < 3; ++size) {
    EXPECT_EQ(found[0][size].bytes, int64_t{4096} << (2 * size));
    EXPECT_EQ(found[0][size].seconds[0].size(), 5U);
    EXPECT_EQ(found[0][size].seconds[1].size(), 5U);
    EXPECT_TRUE(found[0][size].seconds[2].empty());
    for (size_t rank = 1; rank < 4; ++rank) EXPECT_EQ(found[rank][size].seconds, found[0][size].seconds);
  }
}

TEST(TierMeasurement, BeginsNoSizeWhenItsTimeIsUp) {
  run_local_ranks(2, {.timeout_seconds = 60}, [](Communicator& world) {
    TierSwitch chosen;
    EXPECT_EQ(measure_tiers(world, world, chosen, kTwo, {.rounds = 3, .size_seconds = 0, .seconds = 0}).size(), 1U);
  });
}

TEST(TierMeasurement, TheTableNamesWhatIsTaken) {
  const std::vector<TierTimes> times = {{.bytes = 4096, .seconds = {{{2e-3, 2e-3}, {1e-3, 1e-3}, {}}}},
                                        {.bytes = 16384, .seconds = {{{2e-3, 2e-3}, {4e-3, 4e-3}, {}}}}};
  EXPECT_EQ(tier_table(times, policy_from(times)),
            "      bytes    sharded  multicast  one-sided  taken (medians, ms)\n"
            "       4096      2.000      1.000          -  multicast\n"
            "      16384      2.000      4.000          -  sharded\n");
}

}  // namespace
}  // namespace litespark::dist
