// SPDX-License-Identifier: Apache-2.0
// How a mesh forms; what it carries is test_gloo_communicator's matter.
#include <gtest/gtest.h>

#include <future>

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

// 2 s in all, where one after another would take 8.
TEST(GlooLink, WhoLeavesSeveralLinksThatNobodyElseLeavesWaitsForAllOfThemAtOnce) {
  const RendezvousOptions options{.join_seconds = 20, .heartbeat_seconds = 30};
  const Secret secret = Secret::random();
  const RendezvousServer server({.job = "job", .size = 2}, {}, secret, listen_on("127.0.0.1", 0), options);
  const auto form = [&](int rank) {
    Rendezvous rendezvous({"127.0.0.1", server.port()}, {.job = "job", .rank = rank, .size = 2}, {}, secret, options);
    std::vector<std::unique_ptr<GlooLink>> links;
    for (const char* mesh : {"a", "b", "c", "d"})
      links.push_back(std::make_unique<GlooLink>(rendezvous, mesh, secret.bytes(), in_seconds(20)));
    return links;
  };
  auto other = std::async(std::launch::async, [&] { return form(1); });
  std::vector<std::unique_ptr<GlooLink>> links = form(0);
  const auto staying = other.get();
  const auto begin = std::chrono::steady_clock::now();
  for (const std::unique_ptr<GlooLink>& link : links) link->announce_leave();
  links.clear();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
}

}  // namespace
}  // namespace litespark::dist
