// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <future>

#include "dist/norm/multicast_tier.h"
#include "support/error_text.h"

namespace litespark::dist {
namespace {

/// What each rank of a job on this machine gets; one that loses everything hears nobody.
std::vector<MulticastTier> tiers_of(int size, int deaf_rank) {
  const RendezvousOptions options{.join_seconds = 20, .heartbeat_seconds = 30};
  const Secret secret = Secret::random();
  const RendezvousServer server({.job = "job", .size = size}, {}, secret, listen_on("127.0.0.1", 0), options);
  std::vector<std::future<MulticastTier>> coming;
  for (int rank = 0; rank < size; ++rank) {
    coming.push_back(std::async(std::launch::async, [&, rank] {
      Rendezvous rendezvous({"127.0.0.1", server.port()}, {.job = "job", .rank = rank, .size = size}, {}, secret,
                            options);
      MulticastTier tier =
          make_multicast_tier(rendezvous, in_seconds(60), deaf_rank < 0 ? 20 : 0.5, rank == deaf_rank ? 100 : 0);
      rendezvous.set("seen/" + std::to_string(rank), "");  // nobody leaves before all have seen what came of it
      for (int other = 0; other < size; ++other) rendezvous.get("seen/" + std::to_string(other), in_seconds(60));
      return tier;
    }));
  }
  std::vector<MulticastTier> tiers;
  for (auto& one : coming) tiers.push_back(one.get());
  return tiers;
}

TEST(MulticastTier, IsThereWhereAllHearEachOther) {
  for (const MulticastTier& tier : tiers_of(3, -1)) {
    EXPECT_TRUE(tier.link) << tier.missing;
    EXPECT_EQ(tier.missing, "");
  }
}

TEST(MulticastTier, NobodyHasItWhereOneDoesNotHear) {
  for (const MulticastTier& tier : tiers_of(3, 1)) {
    EXPECT_FALSE(tier.link);
    EXPECT_TRUE(contains(tier.missing, "before the deadline"));
  }
}

}  // namespace
}  // namespace litespark::dist
