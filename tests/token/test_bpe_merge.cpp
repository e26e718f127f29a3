// SPDX-License-Identifier: Apache-2.0
// The merging order: short and long words against the definition, applied naively.
#include <random>

#include "token/bpe_model.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Ids = std::vector<int32_t>;

// Lowest rank first, leftmost first, one merge at a time.
Ids merge_naively(const BpeSpec& spec, std::string_view word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best_rank = SIZE_MAX;
    size_t best = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
        if (spec.merges[rank] == std::pair(parts[i], parts[i + 1]) && rank < best_rank) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == SIZE_MAX) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& part : parts) {
    for (const auto& [text, id] : spec.vocab) {
      if (text == part) ids.push_back(id);
    }
  }
  return ids;
}

TEST(BpeMerge, FollowsTheDefinitionForShortAndLongWords) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::pair<std::string, std::string>> merges;
    std::vector<std::string> tokens = {"a", "b", "c"};
    while (merges.size() < 12) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
    const BpeSpec spec = byte_model(merges);
    const BpeModel model(spec);
    BpeScratch scratch;
    for (const size_t size : {1u, 2u, 7u, 47u, 48u, 49u, 130u, 300u}) {
      std::string word;
      for (size_t i = 0; i < size; ++i) word += static_cast<char>("abcd"[random() % 4]);
      Ids ids;
      model.encode_word(word, WordForm::kBytes, &scratch, &ids);
      ASSERT_EQ(ids, merge_naively(spec, word)) << word;
    }
  }
}

// fault:D9: one word of a megabyte
TEST(BpeMerge, MergesAMegabyteOfOneLetter) {
  const BpeModel model(byte_model({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));
  BpeScratch scratch;
  Ids ids;
  model.encode_word(std::string((1 << 20) + 3, 'a'), WordForm::kBytes, &scratch, &ids);
  EXPECT_EQ(ids.size(), (size_t{1} << 17) + 2);
  EXPECT_EQ(ids.front(), 258);
  EXPECT_EQ(ids.back(), 'a');
}

}  // namespace
}  // namespace litespark::token
