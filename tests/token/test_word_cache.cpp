// SPDX-License-Identifier: Apache-2.0
// A cache may forget, never confuse.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "token/word_cache.h"

namespace litespark::token {
namespace {

std::vector<int32_t> ids_of(std::string_view word) {
  std::vector<int32_t> ids;
  for (const char c : word) ids.push_back(c * 7 + static_cast<int32_t>(word.size()));
  ids.resize(word.size() % 9 + 1, -5);
  return ids;
}

TEST(WordCache, FindsShortAndLongWordsWithFewAndManyIds) {
  WordCache cache;
  for (const size_t size : {1u, 2u, 3u, 4u, 7u, 8u, 9u, 15u, 16u, 17u, 100u, 256u}) {
    const std::string word(size, static_cast<char>('a' + size % 26));
    const WordKey key = WordCache::key_of(word);
    EXPECT_TRUE(cache.find(word, key).empty());
    const std::vector<int32_t> ids = ids_of(word);
    cache.insert(word, key, ids);
    const auto found = cache.find(word, key);
    EXPECT_EQ(std::vector<int32_t>(found.begin(), found.end()), ids);
  }
}

TEST(WordCache, NeverGivesAnotherWordsIdsEvenWhenFull) {
  WordCache cache(4);  // 16 slots, so that words push each other out
  std::mt19937 random(1);
  size_t hits = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string word;
    for (size_t size = random() % 40 + 1; size > 0; --size) word += static_cast<char>("ab\0\xFF"[random() % 4]);
    if (random() % 2 == 0) word.resize(random() % 3 + 1, 'a');
    const WordKey key = WordCache::key_of(word);
    const auto found = cache.find(word, key);
    if (found.empty()) {
      cache.insert(word, key, ids_of(word));
    } else {
      ++hits;
      ASSERT_EQ(std::vector<int32_t>(found.begin(), found.end()), ids_of(word));
    }
  }
  EXPECT_GT(hits, 1000u);
}

}  // namespace
}  // namespace litespark::token
