// SPDX-License-Identifier: Apache-2.0
// The model against figures that NCCL's users measured, loosely: it is for planning.
#include <gtest/gtest.h>

#include "core/error.h"
#include "plan/collective_time.h"

namespace litespark {
namespace {

constexpr double kGiB = 1073741824.0;

TEST(CollectiveTime, OneRankNeedsNone) {
  EXPECT_EQ(collective_seconds(Collective::kAllReduce, kGiB, {1, 1}, hardware_named("h100")), 0);
}

TEST(CollectiveTime, AHopTakesItsBytesOverTheLinkOrTheNetworkCardAndALatency) {
  const Hardware h200 = hardware_named("h200");
  EXPECT_EQ(hop_seconds(kGiB, {1, 1}, h200), 0);
  const double inside = hop_seconds(kGiB, {4, 4}, h200);
  EXPECT_NEAR(inside, kGiB / ring_rate({4, 4}, h200) + 20e-6, 1e-12);
  EXPECT_NEAR(hop_seconds(kGiB, {4, 2}, h200), kGiB / ring_rate({4, 1}, h200) + 20e-6, 1e-12);
  EXPECT_GT(hop_seconds(kGiB, {4, 2}, h200), inside);
}

TEST(CollectiveTime, WithoutALinkThereIsNoAnswer) {
  Hardware alone = hardware_named("h100");
  alone.link_gbps = 0;
  EXPECT_THROW(collective_seconds(Collective::kAllReduce, kGiB, {8, 8}, alone), ConfigError);
  EXPECT_THROW(collective_seconds(Collective::kAllReduce, kGiB, {2, 1}, hardware_named("cpu")), ConfigError);
}

TEST(CollectiveTime, LargeArraysReachTheMeasuredBandwidth) {
  const Hardware h200 = hardware_named("h200");
  EXPECT_NEAR(bus_bandwidth(Collective::kAllReduce, 16 * kGiB, {8, 8}, h200) / 1e9, 482, 48);
  EXPECT_NEAR(bus_bandwidth(Collective::kAllGather, 16 * kGiB, {8, 8}, h200) / 1e9, 361, 36);
  EXPECT_NEAR(bus_bandwidth(Collective::kAllReduce, 16 * kGiB, {8, 8}, hardware_named("a100")) / 1e9, 235, 24);
  EXPECT_NEAR(bus_bandwidth(Collective::kAllReduce, 16 * kGiB, {32, 8}, h200) / 1e9, 369, 37);
}

// bench/results/2026-11-30-h200-x2-nccl.json: between two ranks the last step, which only receives, weighs most.
TEST(CollectiveTime, TwoRanksReachLessOfTheLinkThanEight) {
  const Hardware h200 = hardware_named("h200");
  EXPECT_NEAR(bus_bandwidth(Collective::kReduceScatter, kGiB, {2, 2}, h200) / 1e9, 276, 28);
  EXPECT_NEAR(bus_bandwidth(Collective::kAllGather, kGiB, {2, 2}, h200) / 1e9, 292, 29);
  EXPECT_NEAR(bus_bandwidth(Collective::kAllReduce, kGiB, {2, 2}, h200) / 1e9, 328, 33);
  EXPECT_NEAR(bus_bandwidth(Collective::kReduceScatter, kGiB / 16, {2, 2}, h200) / 1e9, 211, 21);
  EXPECT_NEAR(bus_bandwidth(Collective::kAllReduce, kGiB / 16, {2, 2}, h200) / 1e9, 267, 27);
}

TEST(CollectiveTime, ALinkIsTheBandwidthThatWasMeasuredOverTheRingsShare) {
  Hardware measured = hardware_named("h200");
  for (const int64_t ranks : {2, 4}) {
    measured.link_gbps = 100 / ring_share(Collective::kAllReduce, static_cast<double>(ranks));
    EXPECT_NEAR(bus_bandwidth(Collective::kAllReduce, 16 * kGiB, {ranks, ranks}, measured) / 1e9, 100, 1);
  }
}

// A reduce-scatter between two ranks: half is read and sent, half comes, is written, read, added to what was read,
// written.
TEST(CollectiveTime, ARingPassesThroughMemoryAsItsStepsSay) {
  EXPECT_DOUBLE_EQ(ring_memory_bytes(Collective::kReduceScatter, 2, 2), 5);
  EXPECT_DOUBLE_EQ(ring_memory_bytes(Collective::kAllGather, 2, 2), 4);
  EXPECT_DOUBLE_EQ(ring_memory_bytes(Collective::kAllReduce, 2, 2), 8);
  EXPECT_NEAR(ring_memory_bytes(Collective::kAllReduce, 1, 1024), 6, 0.01);
}

TEST(CollectiveTime, ContentionGrowsWithTheTrafficAndNotWithTheTimeOfTravel) {
  Hardware h200 = hardware_named("h200");
  const double fast = contention_seconds(Collective::kReduceScatter, kGiB, 8, h200);
  EXPECT_LT(fast, collective_seconds(Collective::kReduceScatter, kGiB, {8, 8}, h200));
  EXPECT_DOUBLE_EQ(contention_seconds(Collective::kReduceScatter, 2 * kGiB, 8, h200), 2 * fast);
  h200.link_gbps /= 10;
  EXPECT_DOUBLE_EQ(contention_seconds(Collective::kReduceScatter, kGiB, 8, h200), fast);
}

TEST(CollectiveTime, SmallArraysTakeTheLatencyOfTheGroup) {
  const Hardware h100 = hardware_named("h100");
  const double one_node = collective_seconds(Collective::kAllReduce, 1024, {8, 8}, h100);
  const double sixteen = collective_seconds(Collective::kAllReduce, 1024, {128, 8}, h100);
  EXPECT_GT(one_node, 13e-6);
  EXPECT_LT(one_node, 35e-6);
  EXPECT_GT(sixteen, 55e-6);
  EXPECT_LT(sixteen, 90e-6);
}

TEST(CollectiveTime, GrowsWithBytesAndNodes) {
  const Hardware h100 = hardware_named("h100");
  double before = 0;
  for (double bytes = 1024; bytes < 1e11; bytes *= 4) {
    const double seconds = collective_seconds(Collective::kAllReduce, bytes, {64, 8}, h100);
    EXPECT_GT(seconds, before);
    before = seconds;
  }
  for (int64_t ranks = 16; ranks < 16384; ranks *= 2) {
    EXPECT_GE(collective_seconds(Collective::kAllGather, kGiB, {2 * ranks, 8}, h100),
              collective_seconds(Collective::kAllGather, kGiB, {ranks, 8}, h100));
  }
}

// claim:C9: "1024 devices, 100 MB: 1.2 us and 65 ns a byte give 28.3 ms; 0.8 us and 32 ns give 15.1 ms".
TEST(CollectiveTime, TheClosedFormGivesSecondsWhereTheArticleHasMilliseconds) {
  EXPECT_NEAR(ring_formula_seconds(100e6, 1024, 1.2e-6, 65e-9), 13.0, 0.1);
  // Read as picoseconds, or as the bits of a card, neither row comes out either.
  EXPECT_NEAR(ring_formula_seconds(100e6, 1024, 1.2e-6, 65e-12), 15.4e-3, 0.1e-3);
  EXPECT_NEAR(ring_formula_seconds(100e6, 1024, 0.8e-6, 32e-12), 8.0e-3, 0.1e-3);
  EXPECT_NEAR(ring_formula_seconds(100e6, 1024, 1.2e-6, 1 / 25e9), 10.4e-3, 0.1e-3);
}

// claim:C3: 8.2 ms at 64 devices, 47.6 at 512, 312.4 at 4096: time grows as a ring's latency does, 40 to 65 us a hop.
TEST(CollectiveTime, ThePublishedDelaysAreRingsOfSlowHops) {
  const auto hop = [](double ms, double ranks) { return ms / (2 * (ranks - 1)) * 1e3; };
  EXPECT_NEAR(hop(8.2, 64), 65, 1);
  EXPECT_NEAR(hop(47.6, 512), 46.6, 1);
  EXPECT_NEAR(hop(312.4, 4096), 38.1, 1);
  // A tree over the same nodes takes no such time.
  EXPECT_LT(collective_seconds(Collective::kAllReduce, 1 << 20, {4096, 8}, hardware_named("h100")), 1e-3);
}

TEST(CollectiveTime, RanksFarApartHaveOneNetworkCardEach) {
  const Hardware h100 = hardware_named("h100");
  EXPECT_EQ(strided_group(16, 8, h100).ranks_a_node, 1);
  EXPECT_EQ(strided_group(16, 1, h100).ranks_a_node, 8);
  EXPECT_LT(ring_rate(strided_group(16, 8, h100), h100), 50e9);
  EXPECT_GT(ring_rate(strided_group(16, 1, h100), h100), 300e9);
}

}  // namespace
}  // namespace litespark
