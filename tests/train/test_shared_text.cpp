// SPDX-License-Identifier: Apache-2.0
// What the first rank says arrives on all others, whatever they held themselves.
#include <gtest/gtest.h>

#include "dist/local_world.h"
#include "ops/cpu/cpu_backend.h"
#include "train/shared_text.h"

namespace litespark {
namespace {

TEST(SharedText, IsTheFirstRanksOnEveryRank) {
  for (const std::string& text : {std::string(), std::string("x"), std::string(100001, 'y') + '\n'}) {
    run_local_ranks(3, {}, [&](Communicator& ranks) {
      const auto backend = make_cpu_backend({.threads = 1});
      EXPECT_EQ(from_first_rank(&ranks, *backend, ranks.rank() == 0 ? text : "my own"), text);
    });
  }
}

TEST(SharedText, KeepsNamesAndTextsApart) {
  const std::map<std::string, std::string> texts = {{"a", "b\nc"}, {"", "empty name"}, {"empty text", ""}, {"=", "\t"}};
  run_local_ranks(2, {}, [&](Communicator& ranks) {
    const auto backend = make_cpu_backend({.threads = 1});
    const std::map<std::string, std::string> mine = {{"other", "thing"}};
    EXPECT_EQ(from_first_rank(&ranks, *backend, ranks.rank() == 0 ? texts : mine), texts);
    EXPECT_TRUE(from_first_rank(&ranks, *backend, std::map<std::string, std::string>{}).empty());
  });
}

TEST(SharedText, ComesFromAnyRankThatIsNamed) {
  run_local_ranks(3, {}, [&](Communicator& ranks) {
    const auto backend = make_cpu_backend({.threads = 1});
    const std::map<std::string, std::string> mine = {{"rank", std::to_string(ranks.rank())}};
    EXPECT_EQ(from_rank(2, &ranks, *backend, mine).at("rank"), "2");
    EXPECT_EQ(from_rank(1, &ranks, *backend, mine).at("rank"), "1");
  });
}

TEST(SharedText, OfAllRanksIsThatOfEachInTheirOrder) {
  run_local_ranks(3, {}, [&](Communicator& ranks) {
    const auto backend = make_cpu_backend({.threads = 1});
    const std::string mine(static_cast<size_t>(200 * ranks.rank()), static_cast<char>('a' + ranks.rank()));
    EXPECT_EQ(from_all_ranks(&ranks, *backend, mine),
              (std::vector<std::string>{"", std::string(200, 'b'), std::string(255, 'c')}));
  });
}

TEST(SharedText, OfOneRankIsItsOwn) {
  const auto backend = make_cpu_backend({.threads = 1});
  EXPECT_EQ(from_first_rank(nullptr, *backend, "mine"), "mine");
  EXPECT_EQ(from_all_ranks(nullptr, *backend, "mine"), std::vector<std::string>{"mine"});
}

}  // namespace
}  // namespace litespark
