// SPDX-License-Identifier: Apache-2.0
#include "anatomy/collectives.h"
#include "anatomy/tiny_measure.h"

namespace litespark::anatomy {
namespace {

RankWorld two_threads() {
  return local_world(2, [] { return make_cpu_backend({.threads = 1}); });
}

TEST(CollectivesChapter, FindsTheConstantsOfARingThatFollowsTheFormula) {
  constexpr double kAlpha = 2e-6;
  constexpr double kBeta = 3e-11;
  std::vector<CollectiveTimes> times;
  for (const int64_t bytes : {int64_t{0}, int64_t{1} << 24}) {
    times.push_back({.bytes = bytes, .all_reduce = 6 * kAlpha + 1.5 * static_cast<double>(bytes) * kBeta});
  }
  const RingConstants found = ring_constants(times, 4);
  EXPECT_NEAR(found.alpha_seconds, kAlpha, 1e-15);
  EXPECT_NEAR(found.beta_seconds_a_byte, kBeta, 1e-18);
  EXPECT_EQ(ring_constants(times, 1).alpha_seconds, 0);
}

TEST(CollectivesChapter, TimesEverySizeOnEveryRank) {
  const std::vector<CollectiveTimes> times = measure_collectives(two_threads(), tiny_measure(), {64, 4096});
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].bytes, 64);
  EXPECT_EQ(times[1].bytes, 4096);
  for (const CollectiveTimes& one : times) {
    EXPECT_GT(one.all_reduce, 0);
    EXPECT_GT(one.reduce_scatter, 0);
    EXPECT_GT(one.all_gather, 0);
  }
}

TEST(CollectivesChapter, SeesHowMuchOfAStepWaits) {
  const double share = measure_exposed_share(two_threads(), tiny_measure(), tiny_sizes());
  EXPECT_GT(share, 0);
  EXPECT_LT(share, 1);
}

TEST(CollectivesChapter, GivesThePlannerTheLinkAndTheClaimItsArithmetic) {
  Hardware hardware;
  const Chapter chapter =
      collectives_chapter({two_threads()}, tiny_measure(), {.bytes = {64, 4096}, .model = tiny_sizes()}, &hardware);
  EXPECT_GT(hardware.link_gbps, 0);
  EXPECT_EQ(hardware.devices_a_node, 2);
  EXPECT_NEAR(number_of(chapter, "formula_as_written"), 12.99, 0.01);
  EXPECT_NEAR(number_of(chapter, "formula_in_ps"), 0.0154, 1e-4);
  EXPECT_EQ(table_of(chapter, "local").rows.size(), 2u);
}

}  // namespace
}  // namespace litespark::anatomy
