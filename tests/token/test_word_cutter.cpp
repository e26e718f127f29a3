// SPDX-License-Identifier: Apache-2.0
// Cutting changes no ids, whatever the merges and the unknown characters.
#include <random>

#include "token/encoder.h"
#include "token/word_cutter.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

BpeSpec model_of(const std::vector<std::pair<std::string, std::string>>& merges) {
  BpeSpec spec;
  spec.unk_token = "<unk>";
  for (const char* text : {"<unk>", "▁", "a", "b", "c", "é"}) {
    spec.vocab.emplace_back(text, static_cast<int32_t>(spec.vocab.size()));
  }
  for (const auto& [left, right] : merges) {
    spec.vocab.emplace_back(left + right, static_cast<int32_t>(spec.vocab.size()));
    spec.merges.emplace_back(left, right);
  }
  return spec;
}

Strings parts(const WordCutter& cutter, std::string_view word) {
  Strings found;
  cutter.for_each_part(word, [&](std::string_view part) { found.emplace_back(part); });
  return found;
}

TEST(WordCutter, CutsBeforeMarksIfNoMergeEndsAWordThere) {
  const BpeModel model(model_of({{"▁", "a"}, {"▁", "▁"}, {"a", "b"}}));
  const WordCutter cutter(model);
  EXPECT_TRUE(cutter.cuts_at_marks());
  EXPECT_EQ(parts(cutter, "▁ab▁▁c▁"), (Strings{"▁ab", "▁▁c", "▁"}));
}

TEST(WordCutter, CutsBetweenCharactersThatNoTokenHoldsTogetherOtherwise) {
  const BpeModel model(model_of({{"a", "▁"}, {"a▁", "b"}, {"b", "b"}}));
  const WordCutter cutter(model);
  EXPECT_FALSE(cutter.cuts_at_marks());
  EXPECT_EQ(parts(cutter, "ca▁bb▁éa"), (Strings{"c", "a▁bb", "▁", "é", "a"}));
}

TEST(WordCutter, NeverCutsBetweenUnknownCharacters) {
  const BpeModel model(model_of({{"a", "▁"}}));
  EXPECT_FALSE(WordCutter(model).can_cut(U'x', U'y'));
  EXPECT_TRUE(WordCutter(model).can_cut(U'x', U'a'));
  EXPECT_TRUE(WordCutter(model).can_cut(U'é', U'中'));
}

TEST(WordCutter, ChangesNoIds) {
  std::mt19937 random(17);
  const Strings letters = {"▁", "a", "b", "c", "é", "x", "中", "▁"};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<std::string, std::string>> merges;
    Strings tokens = {"▁", "a", "b", "c", "é"};
    while (merges.size() < 8) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
    TokenizerSpec spec;
    spec.model = model_of(merges);
    spec.model.fuse_unk = round % 2 == 0;
    TokenizerParts with(spec);
    TokenizerParts without(spec);
    without.cutter.reset();
    EncodeScratch scratch_with;
    EncodeScratch scratch_without;
    for (int word = 0; word < 20; ++word) {
      std::string text;
      for (size_t size = random() % 60 + 1; size > 0; --size) text += letters[random() % letters.size()];
      Ids cut;
      Ids whole;
      encode_text(with, text, true, &scratch_with, &cut);
      encode_text(without, text, true, &scratch_without, &whole);
      ASSERT_EQ(cut, whole) << text;
    }
  }
}

}  // namespace
}  // namespace litespark::token
