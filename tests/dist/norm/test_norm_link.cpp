// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <random>

#include "dist/norm/norm_link.h"
#include "support/error_text.h"

namespace litespark::dist {
namespace {

constexpr CallLabel kLabel = {.kind = CallKind::kAllGather, .dtype = DType::kU8};

Deadline in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}

/// Ranks of this machine, each a thread.
void run_ranks(int size, const std::function<void(NormLink& link)>& body, double lost_percent = 0) {
  const uint64_t job = std::random_device()() + (uint64_t{static_cast<uint32_t>(getpid())} << 32);
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      NormLink link({.rank = rank, .size = size, .address = "127.0.0.1", .job = job, .lost_percent = lost_percent});
      body(link);
    }));
  }
  for (std::future<void>& rank : ranks) rank.get();
}

std::byte value_of(int rank, int64_t round, int64_t i) {
  return static_cast<std::byte>((rank * 31 + round * 7 + i) % 251);
}

/// One message of so many bytes from each rank of `ranks` to all of them.
void tell_all(NormLink& link, const std::vector<int>& ranks, int64_t round, int64_t bytes, double seconds = 10) {
  std::vector<std::byte> own(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < bytes; ++i) own[static_cast<size_t>(i)] = value_of(link.rank(), round, i);
  std::vector<std::vector<std::byte>> found;
  std::vector<Message> sent;
  std::vector<Message> received;
  for (const int rank : ranks) {
    if (rank == link.rank()) continue;
    auto& place = found.emplace_back(static_cast<size_t>(bytes));
    sent.push_back({.rank = rank, .data = own.data(), .bytes = bytes, .label = kLabel, .is_for_all = true});
    received.push_back({.rank = rank, .data = place.data(), .bytes = bytes, .label = kLabel, .is_for_all = true});
  }
  link.transfer(sent, received, in(seconds));
  for (size_t at = 0; at < received.size(); ++at) {
    for (int64_t i = 0; i < bytes; ++i)
      ASSERT_EQ(found[at][static_cast<size_t>(i)], value_of(received[at].rank, round, i)) << bytes << " bytes, " << i;
  }
}

TEST(NormLink, GivesEverybodyWhatEachSays) {
  run_ranks(3, [](NormLink& link) {
    int64_t round = 0;
    for (const int64_t bytes : {0, 1, 100, 5000, 300000, 7, 0}) tell_all(link, {0, 1, 2}, round++, bytes);
  });
}

TEST(NormLink, LostPacketsAreAskedForAgain) {
  run_ranks(
      2,
      [](NormLink& link) {
        for (int64_t round = 0; round < 5; ++round) tell_all(link, {0, 1}, round, 200000);
      },
      3);
}

TEST(NormLink, SetsOfRanksDoNotHearEachOther) {
  run_ranks(4, [](NormLink& link) {
    for (int64_t round = 0; round < 3; ++round) {
      tell_all(link, link.rank() % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3}, round, 3000);
      tell_all(link, {0, 1, 2, 3}, round, 500);
    }
  });
}

TEST(NormLink, ALateRankIsNamedAtTheDeadline) {
  run_ranks(3, [](NormLink& link) {
    tell_all(link, {0, 1, 2}, 0, 10);
    if (link.rank() == 2) return;
    const std::string text = error_text<LinkFailure>([&] { tell_all(link, {0, 1, 2}, 1, 10, 0.5); });
    EXPECT_TRUE(contains(text, "no word from rank 2 before the deadline"));
  });
}

TEST(NormLink, AnAbortIsHeardByTheOthers) {
  run_ranks(2, [](NormLink& link) {
    tell_all(link, {0, 1}, 0, 10);
    if (link.rank() == 1) return link.abort("the test wants it");
    const std::string text = error_text<LinkFailure>([&] { tell_all(link, {0, 1}, 1, 10, 8); });
    EXPECT_TRUE(contains(text, "rank 1 gave up: the test wants it"));
  });
}

TEST(NormLink, AnotherCallIsFound) {
  run_ranks(2, [](NormLink& link) {
    tell_all(link, {0, 1}, 0, 10);
    const std::string text = error_text<LinkFailure>([&] { tell_all(link, {0, 1}, 1, 10 + link.rank(), 8); });
    EXPECT_TRUE(contains(text, "made another call"));
  });
}

TEST(NormLink, WantsAnAddressOfThisHost) {
  EXPECT_TRUE(contains(error_text<LinkFailure>([] { NormLink({.size = 2, .address = "203.0.113.7"}); }),
                       "no interface of this host has the address 203.0.113.7"));
}

}  // namespace
}  // namespace litespark::dist
