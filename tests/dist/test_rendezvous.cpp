// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <random>

#include "core/error.h"
#include "dist/rendezvous.h"
#include "support/error_text.h"
#include "support/faulty_proxy.h"

namespace litespark::dist {
namespace {

const JobFacts kFacts = {{"config", "c"}, {"binary", "b"}, {"data", "d"}, {"tokenizer", "t"}};

/// A server with rank 0's facts, and ranks that join it.
struct Meeting {
  explicit Meeting(int num_ranks, const RendezvousOptions& wanted = {.join_seconds = 20, .heartbeat_seconds = 8})
      : size(num_ranks), options(wanted) {}

  JobPlace place_of(int rank) const { return {.job = "job", .attempt = 2, .rank = rank, .size = size}; }
  RendezvousAddress address() const { return {"127.0.0.1", server.port()}; }
  std::unique_ptr<Rendezvous> join(const JobPlace& place, const JobFacts& facts = kFacts) const {
    return std::make_unique<Rendezvous>(address(), place, facts, secret, options);
  }
  std::future<std::unique_ptr<Rendezvous>> join_later(int rank, const JobFacts& facts = kFacts) const {
    return std::async(std::launch::async, [this, rank, facts] { return join(place_of(rank), facts); });
  }
  /// All of them.
  std::vector<std::unique_ptr<Rendezvous>> join_all() const {
    std::vector<std::future<std::unique_ptr<Rendezvous>>> coming;
    for (int rank = 0; rank < size; ++rank) coming.push_back(join_later(rank));
    std::vector<std::unique_ptr<Rendezvous>> ranks;
    for (auto& one : coming) ranks.push_back(one.get());
    return ranks;
  }

  int size;
  RendezvousOptions options;
  Secret secret = Secret::random();
  RendezvousServer server{
      {.job = "job", .attempt = 2, .rank = 0, .size = size}, kFacts, secret, listen_on("127.0.0.1", 0), options};
};

std::string refusal(std::future<std::unique_ptr<Rendezvous>>& one) {
  return error_text<ConfigError>([&] { one.get(); });
}

TEST(Rendezvous, RanksMeetAndShareValues) {
  const Meeting meeting(3);
  auto ranks = meeting.join_all();
  auto later = std::async(std::launch::async, [&] { return ranks[2]->get("id", in_seconds(10)); });
  ranks[0]->set("id", std::string("\0binary", 7));
  EXPECT_EQ(later.get(), std::string("\0binary", 7));
  EXPECT_EQ(ranks[1]->get("id", in_seconds(10)), std::string("\0binary", 7));
  EXPECT_EQ(ranks[1]->own_address(), "127.0.0.1");
  EXPECT_EQ(host_number(*ranks[0], in_seconds(10)), 0);
  EXPECT_EQ(host_number(*ranks[2], in_seconds(10)), 0);
  EXPECT_TRUE(
      contains(error_text<CommError>([&] { ranks[1]->get("absent", in_seconds(0.05)); }), "nobody said absent"));
}

// fault:B9
TEST(Rendezvous, ABitThatTurnsOnTheWayIsNeverBelieved) {
  const std::string value(300, 'v');
  int64_t num_refused = 0;
  for (const bool is_answer : {false, true}) {
    for (int64_t at = is_answer ? 10 : 1; at < 700; at += 61) {
      SCOPED_TRACE((is_answer ? "answer " : "request ") + std::to_string(at));
      const Meeting meeting(1, {.join_seconds = 2, .unknown_seconds = 1, .heartbeat_seconds = 20});
      const test::FaultyProxy proxy({.flip_at = is_answer ? std::nullopt : std::optional(at),
                                     .flip_answer_at = is_answer ? std::optional(at) : std::nullopt},
                                    meeting.server.port());
      try {
        Rendezvous rank({"127.0.0.1", proxy.port()}, meeting.place_of(0), kFacts, meeting.secret, meeting.options);
        rank.set("key", value);
        EXPECT_EQ(rank.get("key", in_seconds(5)), value);  // of the last bytes some come after this
      } catch (const Error&) {
        EXPECT_GT(proxy.num_faults(), 0);
        ++num_refused;
      }
    }
  }
  EXPECT_GE(num_refused, 15);
}

// fault:B12
TEST(Rendezvous, ARankThatIsSetUpOtherwiseStopsTheJobWithTheDifference) {
  const Meeting meeting(2);
  JobFacts other = kFacts;
  other[3].second = "another";
  auto first = meeting.join_later(0);
  auto second = meeting.join_later(1, other);
  const std::string expected = "rank 1 is not set up like rank 0: tokenizer is another, rank 0 has t";
  EXPECT_TRUE(contains(refusal(first), expected));
  EXPECT_TRUE(contains(refusal(second), expected));
}

// fault:B10
TEST(Rendezvous, AnotherJobOrAnOlderAttemptIsRefusedAndTheJobStarts) {
  const Meeting meeting(2);
  JobPlace stale = meeting.place_of(1);
  stale.attempt = 1;
  JobPlace foreign = meeting.place_of(1);
  foreign.job = "other";
  for (const JobPlace& place : {stale, foreign}) {
    EXPECT_TRUE(contains(error_text<ConfigError>([&] { meeting.join(place); }), "this is job job, attempt 2, not job"));
  }
  EXPECT_EQ(meeting.join_all().size(), 2u);
}

TEST(Rendezvous, ASecondProcessOfTheSameRankIsRefused) {
  const Meeting meeting(2);
  auto first = meeting.join_later(1);
  std::string text;
  // Whichever of the two comes second.
  auto second = meeting.join_later(1);
  const auto zero = meeting.join(meeting.place_of(0));
  int num_refused = 0;
  for (auto* one : {&first, &second}) {
    try {
      one->get();
    } catch (const ConfigError& error) {
      text = error.what();
      ++num_refused;
    }
  }
  EXPECT_EQ(num_refused, 1);
  EXPECT_TRUE(contains(text, "rank 1 is there already") || contains(text, "has started without this process"));
}

// fault:B11
TEST(Rendezvous, AWrongSecretIsTurnedAwayAndTheJobStarts) {
  const Meeting meeting(2);
  EXPECT_THROW(Rendezvous(meeting.address(), meeting.place_of(1), kFacts, Secret::random(), meeting.options),
               ConfigError);
  EXPECT_EQ(meeting.server.num_turned_away(), 1);
  EXPECT_EQ(meeting.join_all().size(), 2u);
}

// fault:B11
TEST(Rendezvous, GarbageOnThePortHarmsNobody) {
  const Meeting meeting(2);
  std::mt19937 random(5);
  std::vector<Socket> strangers;
  for (int round = 0; round < 40; ++round) {
    Socket stranger = connect_to("127.0.0.1", meeting.server.port(), in_seconds(5));
    std::string garbage(random() % 3000, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    if (round % 4 == 0) garbage = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    if (round % 4 == 1) garbage = std::string("\xff\xff\xff\xff", 4);
    if (round % 4 == 2) garbage = std::string("\0\0\0\x30", 4) + std::string(48, 'j');
    (void)send(stranger.descriptor(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    strangers.push_back(std::move(stranger));
  }
  auto ranks = meeting.join_all();
  ranks[0]->set("key", "value");
  EXPECT_EQ(ranks[1]->get("key", in_seconds(10)), "value");
  EXPECT_GT(meeting.server.num_turned_away(), 0);
}

// fault:B11
TEST(Rendezvous, SilentConnectionsAreFewAndShort) {
  const Meeting meeting(2, {.join_seconds = 30, .unknown_seconds = 0.5, .most_unknown = 4, .heartbeat_seconds = 8});
  std::vector<Socket> silent;
  silent.reserve(20);
  for (int round = 0; round < 20; ++round)
    silent.push_back(connect_to("127.0.0.1", meeting.server.port(), in_seconds(5)));
  EXPECT_EQ(meeting.join_all().size(), 2u);  // once the silent ones were put out
  EXPECT_GE(meeting.server.num_turned_away(), 20);
}

TEST(Rendezvous, MissingRanksAreNamedAtTheDeadline) {
  const Meeting meeting(4, {.join_seconds = 1, .heartbeat_seconds = 8});
  auto one = meeting.join_later(0);
  auto other = meeting.join_later(2);
  EXPECT_TRUE(contains(error_text<CommError>([&] { one.get(); }), "no word from ranks 1 and 3"));
  EXPECT_TRUE(contains(error_text<CommError>([&] { other.get(); }), "no word from ranks 1 and 3"));
}

TEST(Rendezvous, WhereNobodyListensTheRankSaysSo) {
  int port = 0;
  {
    const Socket listener = listen_on("127.0.0.1", 0);
    port = port_of(listener);
  }
  EXPECT_TRUE(
      contains(error_text<CommError>([&] {
                 Rendezvous({"127.0.0.1", port}, {.job = "j", .size = 2}, {}, Secret::random(), {.join_seconds = -2.5});
               }),
               "nobody answers: Connection refused"));
}

// fault:B4
TEST(Rendezvous, TheOthersHearOfALostRank) {
  const Meeting meeting(3);
  auto ranks = meeting.join_all();
  std::promise<std::string> told;
  ranks[0]->on_loss([&](const std::string& what) { told.set_value(what); });
  auto waiting = std::async(std::launch::async, [&] { ranks[1]->get("never", in_seconds(30)); });
  try {
    const std::unique_ptr<Rendezvous> dying = std::move(ranks[2]);
    throw 1;  // unwinding: the rank does not leave in good order
  } catch (int) {
  }
  EXPECT_EQ(told.get_future().get(), "rank 2 closed the connection");
  EXPECT_TRUE(contains(error_text<CommError>([&] { waiting.get(); }), "rank 2 closed the connection"));
  std::promise<std::string> late;
  ranks[1]->on_loss([&](const std::string& what) { late.set_value(what); });
  EXPECT_EQ(late.get_future().get(), "rank 2 closed the connection");
}

TEST(Rendezvous, ARankThatLeavesInGoodOrderIsNotLost) {
  const Meeting meeting(2);
  auto ranks = meeting.join_all();
  std::atomic<bool> was_told = false;
  ranks[0]->on_loss([&](const std::string&) { was_told = true; });
  ranks[1].reset();
  ranks[0]->set("a", "b");
  EXPECT_EQ(ranks[0]->get("a", in_seconds(10)), "b");  // the server has heard the leaving before this
  EXPECT_FALSE(was_told);
}

}  // namespace
}  // namespace litespark::dist
