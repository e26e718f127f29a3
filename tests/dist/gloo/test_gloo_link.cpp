// SPDX-License-Identifier: Apache-2.0
// How a transfer ends without its messages; what it carries is test_gloo_communicator's matter.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <thread>

#include "dist/gloo/gloo_link.h"
#include "pair_of_ranks.h"

namespace litespark::dist {
namespace {

using Links = std::vector<std::unique_ptr<GlooLink>>;

/// Links between two ranks of this process, of each of which rank `r` has those at [r].
std::array<Links, 2> pairs_of_links(const std::vector<std::string>& meshes) {
  return test::pair_of_ranks([&](Rendezvous& rendezvous, const std::string& secret) {
    Links links;
    for (const std::string& mesh : meshes)
      links.push_back(std::make_unique<GlooLink>(rendezvous, mesh, secret, in_seconds(20)));
    return links;
  });
}

/// How a transfer with `seconds` to go fails: "nothing" if it does not.
LinkFailure failure_of_transfer(GlooLink& link, std::span<const Message> sent, std::span<const Message> received,
                                double seconds) {
  try {
    link.transfer(sent, received, in_seconds(seconds));
  } catch (const LinkFailure& failure) {
    return failure;
  }
  return LinkFailure("nothing");
}

TEST(GlooLink, WhoWaitsIsToldWhyARankGivesUpBeforeThatOneCloses) {
  auto [links, of_other] = pairs_of_links({"mesh"});
  GlooLink& link = *links.front();
  EXPECT_EQ(link.failure_of(1), std::nullopt);
  EXPECT_TRUE(link.missed_ranks().empty());
  float value = 0;
  const Message message{.rank = 1, .data = &value, .bytes = sizeof(value)};
  auto waiting =
      std::async(std::launch::async, [&] { return failure_of_transfer(link, {}, std::span(&message, 1), 20); });
  const Deadline deadline = in_seconds(10);
  while (link.missed_ranks() != std::vector<int>{1} && Clock::now() < deadline) std::this_thread::yield();
  of_other.front()->announce_failure("it is tired");
  const LinkFailure failure = waiting.get();
  EXPECT_EQ(failure.cause(), LinkFailure::Cause::kTold);
  EXPECT_STREQ(failure.what(), "rank 1 gave up: it is tired");
  for (int time = 0; time < 2; ++time) EXPECT_EQ(link.failure_of(1), "rank 1 gave up: it is tired");
  for (const auto& one : {&links, &of_other}) one->front()->abort("the test is over");
}

// fault:B5: what was late is forgotten, and what failed stays until the end.
TEST(GlooLink, ALateTransferNeitherEndsTheNextOnesNorIsInTheirWay) {
  auto [links, of_other] = pairs_of_links({"mesh"});
  GlooLink& link = *links.front();
  float awaited = 0;
  const Message in{.rank = 1, .data = &awaited, .bytes = sizeof(awaited)};
  const auto expect_late = [&] {
    const auto begin = Clock::now();
    const LinkFailure failure = failure_of_transfer(link, {}, std::span(&in, 1), 0.3);
    EXPECT_EQ(failure.cause(), LinkFailure::Cause::kLate);
    EXPECT_EQ(failure.missed(), std::vector<int>{1});
    EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(250));
  };
  expect_late();
  float sent = 5;
  float received = 0;
  const Message out{.rank = 1, .data = &sent, .bytes = sizeof(sent)};
  const Message from_out{.rank = 0, .data = &received, .bytes = sizeof(received)};
  auto receiving = std::async(std::launch::async, [&other = *of_other.front(), &from_out] {
    return failure_of_transfer(other, {}, std::span(&from_out, 1), 20);
  });
  EXPECT_STREQ(failure_of_transfer(link, std::span(&out, 1), {}, 20).what(), "nothing");
  EXPECT_STREQ(receiving.get().what(), "nothing");
  EXPECT_EQ(received, 5);
  expect_late();
  for (const auto& one : {&links, &of_other}) one->front()->abort("the test is over");
}

// 2 s in all, where one after another would take 8.
TEST(GlooLink, WhoLeavesSeveralLinksThatNobodyElseLeavesWaitsForAllOfThemAtOnce) {
  auto [links, staying] = pairs_of_links({"a", "b", "c", "d"});
  const auto begin = std::chrono::steady_clock::now();
  for (const std::unique_ptr<GlooLink>& link : links) link->announce_leave();
  links.clear();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
}

}  // namespace
}  // namespace litespark::dist
