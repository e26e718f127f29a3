// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "anatomy/embedding.h"
#include "anatomy/tiny_measure.h"

namespace litespark::anatomy {
namespace {

TEST(EmbeddingChapter, CountsTheBytesOfARowAndOfAOneHotVector) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Chapter chapter = embedding_chapter(*backend, tiny_measure(), {.vocab = 300, .hidden = 16, .tokens = 64});
  EXPECT_EQ(number_of(chapter, "one_hot_bytes"), 1200);
  EXPECT_EQ(number_of(chapter, "row_bytes"), 64);
}

TEST(EmbeddingChapter, MeasuresBothWaysAndFindsTheSameBitsTwice) {
  const auto backend = make_cpu_backend({.threads = 2});
  const Chapter chapter = embedding_chapter(*backend, tiny_measure(), {.vocab = 300, .hidden = 16, .tokens = 64});
  for (const char* key : {"copy_rate", "forward_random", "forward_text", "backward_random", "backward_text",
                          "accumulate_random", "accumulate_text"}) {
    EXPECT_GT(number_of(chapter, key), 0) << key;
  }
  EXPECT_EQ(number_of(chapter, "repeats_its_bits"), 1);
}

TEST(EmbeddingChapter, DrawsFrequentTokensMoreOftenWhereTextIsAskedFor) {
  const std::vector<int32_t> text = drawn_tokens(1000, 20000, true);
  const std::vector<int32_t> random = drawn_tokens(1000, 20000, false);
  // 1 / (1 + 1/2 + ... + 1/1000) = 13.4 % of the draws are the most frequent token.
  EXPECT_NEAR(static_cast<double>(std::count(text.begin(), text.end(), 0)), 0.134 * 20000, 200);
  EXPECT_LT(std::count(random.begin(), random.end(), 0), 60);
  for (const auto& ids : {text, random}) {
    EXPECT_GE(*std::min_element(ids.begin(), ids.end()), 0);
    EXPECT_LT(*std::max_element(ids.begin(), ids.end()), 1000);
  }
}

}  // namespace
}  // namespace litespark::anatomy
