// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/memory_pattern.h"

namespace litespark {
namespace {

TEST(MemoryPattern, WhatWasFilledInIsWhole) {
  std::vector<uint64_t> words(10000);
  fill_pattern(words, 7);
  EXPECT_EQ(count_damaged(words, 7), 0);
  EXPECT_EQ(count_damaged(words, 8), 10000);
  EXPECT_EQ(count_damaged(std::span(words).subspan(100, 50), 7, 100), 0);
}

TEST(MemoryPattern, EveryFlippedBitShows) {
  std::vector<uint64_t> words(64);
  fill_pattern(words, 1);
  for (size_t bit = 0; bit < 64; ++bit) {
    words[bit] ^= uint64_t{1} << bit;
    EXPECT_EQ(count_damaged(words, 1), 1) << bit;
    words[bit] ^= uint64_t{1} << bit;
  }
}

TEST(MemoryPattern, WordsOfAnotherAddressShow) {
  std::vector<uint64_t> words(8);
  fill_pattern(words, 1);
  std::swap(words[2], words[5]);
  EXPECT_EQ(count_damaged(words, 1), 2);
}

}  // namespace
}  // namespace litespark
