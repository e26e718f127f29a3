// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "dist/rendezvous_wire.h"

namespace litespark::dist {
namespace {

const std::string kSecret(32, 's');
const std::string kClient(kNonceBytes, 'c');
const std::string kServer(kNonceBytes, 'n');
const JobPlace kPlace{.job = "job", .attempt = 3, .rank = 1, .size = 4};

TEST(RendezvousWire, AJoinIsReadBackByWhoKnowsTheSecretAlone) {
  const std::string message = join_message(kPlace, kClient, kServer, kSecret);
  const Join join = read_join(message, kServer, kSecret);
  EXPECT_EQ(join.place.job, "job");
  EXPECT_EQ(join.place.attempt, 3);
  EXPECT_EQ(join.place.rank, 1);
  EXPECT_EQ(join.place.size, 4);
  EXPECT_THROW(read_join(message, kServer, std::string(32, 't')), BadMessage);
  EXPECT_THROW(read_join(message, std::string(kNonceBytes, 'o'), kSecret), BadMessage);  // an old one played again
}

TEST(RendezvousWire, AnyChangedByteOfAJoinIsFound) {
  const std::string message = join_message(kPlace, kClient, kServer, kSecret);
  for (size_t i = 0; i < message.size(); ++i) {
    std::string changed = message;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW(read_join(changed, kServer, kSecret), BadMessage) << i;
    EXPECT_THROW(read_join(message.substr(0, i), kServer, kSecret), BadMessage) << i;
  }
}

TEST(RendezvousWire, ARankOutsideItsJobIsRefusedThoughItIsProven) {
  for (const auto& [rank, size] : {std::pair{4, 4}, std::pair{-1, 4}, std::pair{0, 0}}) {
    const JobPlace place{.job = "job", .attempt = 0, .rank = rank, .size = size};
    EXPECT_THROW(read_join(join_message(place, kClient, kServer, kSecret), kServer, kSecret), BadMessage);
  }
}

TEST(RendezvousWire, SealsHoldOnceInTheirOrderAndDirection) {
  Session rank(false, kClient, kServer, kSecret);
  Session server(true, kClient, kServer, kSecret);
  const std::string first = rank.seal("a");
  const std::string second = rank.seal("b");
  EXPECT_EQ(server.open(first), "a");
  EXPECT_THROW(server.open(first), BadMessage);
  Session other(true, kClient, kServer, kSecret);
  EXPECT_THROW(other.open(second), BadMessage);
  Session reflected(false, kClient, kServer, kSecret);
  EXPECT_THROW(reflected.open(first), BadMessage);
}

TEST(RendezvousWire, MessagesThatNobodyWroteAreRefused) {
  for (const std::string& bytes :
       {std::string(), std::string("short"), std::string(8, '\xff'), std::string(20, '\x7f')}) {
    EXPECT_THROW(
        {
          Reader reader(bytes);
          reader.text();
        },
        BadMessage);
  }
  Reader many(std::string_view("\x7f\xff\xff\xff\xff\xff\xff\xff", 8));
  EXPECT_THROW(read_facts(many), BadMessage);
}

// fault:B12
TEST(RendezvousWire, DifferencesAreListedByName) {
  EXPECT_EQ(facts_difference({{"a", "1"}, {"b", "2"}}, {{"b", "2"}, {"a", "1"}}), "");
  EXPECT_EQ(facts_difference({{"lr", "0.1"}, {"x", "1"}}, {{"lr", "0.2"}, {"y", "1"}}),
            "lr is 0.1, rank 0 has 0.2; x is 1, rank 0 has none; y is absent, rank 0 has 1");
  JobFacts many;
  for (int i = 0; i < 15; ++i) many.emplace_back("key" + std::to_string(i), "1");
  EXPECT_TRUE(facts_difference(many, {}).ends_with("; and 5 more"));
}

}  // namespace
}  // namespace litespark::dist
