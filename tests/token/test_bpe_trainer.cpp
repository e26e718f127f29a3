// SPDX-License-Identifier: Apache-2.0
// Training: the textbook example, determinism, and encoding that follows the learned merges.
#include <algorithm>
#include <map>

#include "token/bpe_trainer.h"
#include "token/tokenizer.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

TrainedBpe train(const BpeTrainOptions& options, const std::vector<std::string>& texts) {
  BpeTrainer trainer(options);
  for (const std::string& text : texts) trainer.add(text);
  return trainer.train();
}

// Counts every pair of the whole text again before each merge.
std::vector<std::pair<std::string, std::string>> merge_naively(const std::string& text, size_t merges) {
  std::map<std::string, int64_t> counts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = next_word_end(KnownPattern::kLlama3, text, begin);
    ++counts[text.substr(begin, end - begin)];
    begin = end;
  }
  std::vector<std::string> tokens;
  std::map<std::string, size_t> ids;
  const auto add = [&](const std::string& token) {
    if (ids.emplace(token, tokens.size()).second) tokens.push_back(token);
  };
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    append_utf8(byte_to_char(static_cast<uint8_t>(byte)), &token);
    add(token);
  }
  std::vector<std::pair<std::vector<std::string>, int64_t>> words;
  for (const auto& [word, count] : counts) {
    std::vector<std::string> parts;
    for (const char c : word) parts.push_back(tokens[static_cast<uint8_t>(c)]);
    words.emplace_back(parts, count);
  }
  std::vector<std::pair<std::string, std::string>> learned;
  while (learned.size() < merges) {
    std::map<std::pair<size_t, size_t>, int64_t> pairs;
    for (const auto& [parts, count] : words) {
      for (size_t i = 0; i + 1 < parts.size(); ++i) pairs[{ids[parts[i]], ids[parts[i + 1]]}] += count;
    }
    const auto best =
        std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < 2) break;
    const std::string left = tokens[best->first.first];
    const std::string right = tokens[best->first.second];
    learned.emplace_back(left, right);
    add(left + right);
    for (auto& [parts, count] : words) {
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        if (parts[i] != left || parts[i + 1] != right) continue;
        parts[i] += right;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
  }
  return learned;
}

TEST(BpeTrainer, MergesTheCommonestPairFirst) {
  const TrainedBpe trained = train({.vocabulary_size = 259}, {"low low low lower newest newest newest newest widest"});
  ASSERT_EQ(trained.tokens.size(), 259u);
  EXPECT_EQ(trained.merges[0], std::pair(std::string("e"), std::string("s")));
  EXPECT_EQ(trained.merges[1], std::pair(std::string("es"), std::string("t")));
}

TEST(BpeTrainer, LearnsWhatCountingFromScratchLearns) {
  std::string text;
  const char* words[] = {"banana ", "bandana ", "aaaa ", "aaaaa ", "na ", "anna's\n", "12 ", "1234 ", "é", "ééé "};
  uint32_t state = 1;
  for (int i = 0; i < 600; ++i) {
    state = state * 1664525 + 1013904223;
    text += words[(state >> 16) % 10];
  }
  const TrainedBpe trained = train({.vocabulary_size = 256 + 60}, {text});
  const auto expected = merge_naively(text, trained.merges.size());
  EXPECT_GT(trained.merges.size(), 20u);
  EXPECT_EQ(trained.merges, expected);
}

TEST(BpeTrainer, TheOrderOfTextsDoesNotMatter) {
  const std::vector<std::string> texts = {"the cat sat", "on the mat", "that cat sat on the hat"};
  std::vector<std::string> reversed(texts.rbegin(), texts.rend());
  const BpeTrainOptions options = {.vocabulary_size = 290, .special_tokens = {"<s>"}};
  EXPECT_EQ(tokenizer_json(train(options, texts)), tokenizer_json(train(options, reversed)));
}

TEST(BpeTrainer, StopsWhenNothingIsCommon) {
  const TrainedBpe trained = train({.vocabulary_size = 1000}, {"abc"});
  EXPECT_EQ(trained.tokens.size(), 256u);
}

TEST(BpeTrainer, NeverMergesTextIntoASpecialToken) {
  const TrainedBpe trained = train({.vocabulary_size = 300, .special_tokens = {"ab"}}, {"ab ab ab ab abab"});
  for (const auto& [left, right] : trained.merges) EXPECT_NE(left + right, "ab");
  const Tokenizer tokenizer = Tokenizer::parse(tokenizer_json(trained));
  for (const int32_t id : tokenizer.encode("ab abab")) EXPECT_NE(id, 0);
}

TEST(BpeTrainer, RefusesOptionsThatCannotBe) {
  EXPECT_TRUE(contains(error_text<ConfigError>([] { BpeTrainer({.vocabulary_size = 255}); }), "255"));
  EXPECT_TRUE(contains(error_text<ConfigError>([] { BpeTrainer({.special_tokens = {"a", "a"}}); }), "repeated"));
  EXPECT_TRUE(contains(error_text<ConfigError>([] { BpeTrainer({.begin_token = "<s>"}); }), "<s>"));
}

}  // namespace
}  // namespace litespark::token
