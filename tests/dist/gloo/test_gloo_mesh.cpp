// SPDX-License-Identifier: Apache-2.0
// How a mesh forms.
#include <gtest/gtest.h>

#include <future>

#include "dist/gloo/gloo_mesh.h"
#include "pair_of_ranks.h"
#include "support/error_text.h"

namespace litespark::dist {
namespace {

std::shared_ptr<gloo::rendezvous::Context> connected(Rendezvous& rendezvous, const std::string& secret,
                                                     double seconds) {
  return connect_mesh(rendezvous, "mesh", secret, make_gloo_device(rendezvous.own_address()), in_seconds(seconds));
}

TEST(GlooMesh, RanksThatDoNotShareTheSecretFormNone) {
  const std::array<std::string, 2> texts =
      test::pair_of_ranks([](Rendezvous& rendezvous, const std::string& /*secret*/) {
        const std::string own_secret(32, rendezvous.place().rank == 0 ? 'a' : 'b');
        return error_text<LinkFailure>([&] { connected(rendezvous, own_secret, 20); });
      });
  EXPECT_TRUE(contains(texts[0], "rank 1"));
  EXPECT_TRUE(contains(texts[0] + texts[1], "does not know the job's secret"));
}

TEST(GlooMesh, OneThatARankDoesNotJoinFailsAtItsDeadline) {
  const std::array<std::string, 2> texts = test::pair_of_ranks([](Rendezvous& rendezvous, const std::string& secret) {
    if (rendezvous.place().rank == 1) return std::string();
    return error_text<LinkFailure>([&] { connected(rendezvous, secret, 1); });
  });
  EXPECT_TRUE(contains(texts[0], "the ranks cannot be connected")) << texts[0];
}

TEST(GlooMesh, ATimeoutIsNeverZeroWhichWouldMeanNone) {
  EXPECT_EQ(left_until(std::chrono::steady_clock::now() - std::chrono::seconds(1)), std::chrono::milliseconds(1));
  EXPECT_GT(left_until(std::chrono::steady_clock::now() + std::chrono::seconds(5)), std::chrono::seconds(4));
}

}  // namespace
}  // namespace litespark::dist
