// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>

#include "dist/gloo/last_words.h"
#include "pair_of_ranks.h"

namespace litespark::dist {
namespace {

struct Rank {
  explicit Rank(std::shared_ptr<gloo::rendezvous::Context> mesh_of_all)
      : mesh(std::move(mesh_of_all)), words(std::make_unique<LastWords>(mesh)) {}
  std::shared_ptr<gloo::rendezvous::Context> mesh;
  std::unique_ptr<LastWords> words;
};

std::array<Rank, 2> two_ranks() {
  return test::pair_of_ranks([](Rendezvous& rendezvous, const std::string& secret) {
    return Rank(connect_mesh(rendezvous, "mesh", secret, make_gloo_device(rendezvous.own_address()), in_seconds(20)));
  });
}

template <class Condition>
bool is_so_within(double seconds, const Condition& is_so) {
  const Deadline deadline = in_seconds(seconds);
  while (!is_so()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(LastWords, AFarewellIsHeardWholeAndALongOneIsCut) {
  auto [own, other] = two_ranks();
  EXPECT_FALSE(own.words->has_said_farewell(1));
  EXPECT_EQ(own.words->farewell_of(1), std::nullopt);
  const std::string why(kLongestFarewell, 'x');
  other.words->say_farewell(why + "y");
  ASSERT_TRUE(is_so_within(10, [&] { return own.words->has_said_farewell(1); }));
  for (int time = 0; time < 2; ++time) EXPECT_EQ(own.words->farewell_of(1), why);
  EXPECT_TRUE(own.words->break_of(1));
  EXPECT_FALSE(other.words->break_of(0));
  EXPECT_FALSE(own.words->has_left(1));
}

TEST(LastWords, AConnectionThatBreaksIsSeenAndEndsAllPatience) {
  auto [own, other] = two_ranks();
  EXPECT_EQ(own.words->break_of(1), std::nullopt);
  other.words.reset();
  close_mesh(*other.mesh);
  EXPECT_TRUE(is_so_within(10, [&] { return own.words->break_of(1).has_value(); }));
  const auto begin = Clock::now();
  own.words->announce_leave();
  own.words->await_leaves();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(1));
}

TEST(LastWords, WhoLeavesWaitsForTheOthersWord) {
  auto [own, other] = two_ranks();
  std::thread leaving([&words = *own.words] {
    words.announce_leave();
    words.await_leaves();
  });
  EXPECT_TRUE(is_so_within(10, [&words = *other.words] { return words.has_left(0); }));
  other.words->announce_leave();
  other.words->announce_leave();  // no matter
  leaving.join();
  EXPECT_TRUE(own.words->has_left(1));
}

}  // namespace
}  // namespace litespark::dist
