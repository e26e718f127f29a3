// SPDX-License-Identifier: Apache-2.0
// How a mesh forms; what it carries is test_gloo_communicator's matter.
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <thread>

#include "core/error.h"
#include "dist/gloo/gloo_link.h"
#include "support/error_text.h"

namespace litespark::dist {
namespace {

TEST(GlooLink, RanksThatDoNotShareTheSecretFormNoMesh) {
  const RendezvousOptions options{.join_seconds = 20, .heartbeat_seconds = 30};
  const Secret secret = Secret::random();
  const RendezvousServer server({.job = "job", .size = 2}, {}, secret, listen_on("127.0.0.1", 0), options);
  const auto form = [&](int rank, const std::string& mesh_secret) {
    Rendezvous rendezvous({"127.0.0.1", server.port()}, {.job = "job", .rank = rank, .size = 2}, {}, secret, options);
    return error_text<LinkFailure>([&] { GlooLink(rendezvous, "mesh", mesh_secret, in_seconds(20)); });
  };
  auto other = std::async(std::launch::async, [&] { return form(1, std::string(32, 'b')); });
  const std::string text = form(0, std::string(32, 'a'));
  EXPECT_TRUE(contains(text, "rank 1"));
  EXPECT_TRUE(contains(text + other.get(), "does not know the job's secret"));
}

TEST(GlooLink, AMeshThatARankDoesNotJoinFailsAtItsDeadline) {
  const RendezvousOptions options{.join_seconds = 20, .heartbeat_seconds = 30};
  const Secret secret = Secret::random();
  const RendezvousServer server({.job = "job", .size = 2}, {}, secret, listen_on("127.0.0.1", 0), options);
  auto idle = std::async(std::launch::async, [&] {
    return std::make_unique<Rendezvous>(RendezvousAddress{"127.0.0.1", server.port()},
                                        JobPlace{.job = "job", .rank = 1, .size = 2}, JobFacts{}, secret, options);
  });
  Rendezvous rendezvous({"127.0.0.1", server.port()}, {.job = "job", .size = 2}, {}, secret, options);
  const auto waiting = idle.get();
  EXPECT_TRUE(contains(error_text<LinkFailure>([&] { GlooLink(rendezvous, "mesh", secret.bytes(), in_seconds(1)); }),
                       "the ranks cannot be connected"));
}

/// Links between two ranks of this process, of each of which rank `r` has those at [r].
std::array<std::vector<std::unique_ptr<GlooLink>>, 2> pairs_of_links(const std::vector<std::string>& meshes) {
  const RendezvousOptions options{.join_seconds = 20, .heartbeat_seconds = 30};
  const Secret secret = Secret::random();
  const RendezvousServer server({.job = "job", .size = 2}, {}, secret, listen_on("127.0.0.1", 0), options);
  const auto form = [&](int rank) {
    Rendezvous rendezvous({"127.0.0.1", server.port()}, {.job = "job", .rank = rank, .size = 2}, {}, secret, options);
    std::vector<std::unique_ptr<GlooLink>> links;
    for (const std::string& mesh : meshes)
      links.push_back(std::make_unique<GlooLink>(rendezvous, mesh, secret.bytes(), in_seconds(20)));
    return links;
  };
  auto other = std::async(std::launch::async, [&] { return form(1); });
  std::vector<std::unique_ptr<GlooLink>> links = form(0);
  return {std::move(links), other.get()};
}

TEST(GlooLink, WhoWaitsIsToldWhyARankGivesUpBeforeThatOneCloses) {
  auto [links, of_other] = pairs_of_links({"mesh"});
  GlooLink& link = *links.front();
  EXPECT_EQ(link.failure_of(1), std::nullopt);
  EXPECT_TRUE(link.missed_ranks().empty());
  float value = 0;
  const Message message{.rank = 1, .data = &value, .bytes = sizeof(value)};
  auto waiting = std::async(std::launch::async, [&] {
    try {
      link.transfer({}, std::span(&message, 1), in_seconds(20));
    } catch (const LinkFailure& failure) {
      return failure;
    }
    return LinkFailure("nothing");
  });
  const Deadline deadline = in_seconds(10);
  while (link.missed_ranks() != std::vector<int>{1, 1} && Clock::now() < deadline) std::this_thread::yield();
  of_other.front()->announce_failure("it is tired");
  const LinkFailure failure = waiting.get();
  EXPECT_EQ(failure.cause(), LinkFailure::Cause::kTold);
  EXPECT_STREQ(failure.what(), "rank 1 gave up: it is tired");
  for (int time = 0; time < 2; ++time) EXPECT_EQ(link.failure_of(1), "rank 1 gave up: it is tired");
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
