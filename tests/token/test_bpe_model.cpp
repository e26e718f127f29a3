// SPDX-License-Identifier: Apache-2.0
// From words to first symbols (bytes, characters, fallback, unknown), and refusing broken vocabularies.
#include "token/bpe_model.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Ids = std::vector<int32_t>;

Ids encode(const BpeSpec& spec, std::string_view word, WordForm form = WordForm::kChars) {
  const BpeModel model(spec);
  BpeScratch scratch;
  Ids first;
  model.encode_word(word, form, &scratch, &first);
  Ids second;
  model.encode_word(word, form, &scratch, &second);  // from the cache
  EXPECT_EQ(first, second);
  return first;
}

BpeSpec char_model() {
  BpeSpec spec;
  spec.vocab = {{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}, {"▁", 4}, {"▁a", 5}};
  spec.merges = {{"a", "b"}, {"▁", "a"}};
  spec.unk_token = "<unk>";
  return spec;
}

void add_fallback(BpeSpec* spec) {
  const char* digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    spec->vocab.emplace_back(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">",
                             static_cast<int32_t>(spec->vocab.size()));
  }
  spec->byte_fallback = true;
}

TEST(BpeModel, ReadsBytesThroughTheAlphabet) {
  EXPECT_EQ(encode(byte_model({{"Ġ", "a"}}), " aé", WordForm::kBytes), (Ids{256, 0xC3, 0xA9}));
}

TEST(BpeModel, GivesOneUnknownForEachCharacterOrOneForARun) {
  BpeSpec spec = char_model();
  EXPECT_EQ(encode(spec, "axyb"), (Ids{1, 0, 0, 2}));
  spec.fuse_unk = true;
  EXPECT_EQ(encode(spec, "axyb"), (Ids{1, 0, 2}));
}

TEST(BpeModel, DropsUnknownCharactersWithoutAnUnknownToken) {
  BpeSpec spec = char_model();
  spec.unk_token.reset();
  EXPECT_EQ(encode(spec, "axb"), (Ids{3}));
}

TEST(BpeModel, FallsBackToBytesWhereTheVocabularyHasThem) {
  BpeSpec spec = char_model();
  add_fallback(&spec);
  EXPECT_EQ(encode(spec, "é"), (Ids{6 + 0xC3, 6 + 0xA9}));
}

TEST(BpeModel, AnUnknownCharacterWaitsAcrossAFallback) {
  BpeSpec spec = char_model();
  add_fallback(&spec);
  std::erase_if(spec.vocab, [](const auto& entry) { return entry.first == "<0xC3>"; });
  // The library emits the unknown é only when a known character follows.
  EXPECT_EQ(encode(spec, "éxa"), (Ids{6 + 'x', 0, 1}));
}

TEST(BpeModel, TakesWholeWordsFirstIfMergesAreIgnored) {
  BpeSpec spec = char_model();
  spec.vocab.emplace_back("ba", 6);
  EXPECT_EQ(encode(spec, "ba"), (Ids{2, 1}));
  spec.ignore_merges = true;
  EXPECT_EQ(encode(spec, "ba"), (Ids{6}));
}

TEST(BpeModel, SaysWhenTheUnknownTokenIsNeededAndMissing) {
  BpeSpec spec = char_model();
  spec.unk_token = "<none>";
  EXPECT_EQ(encode(spec, "ab"), (Ids{3}));
  EXPECT_TRUE(contains(error_text<DataError>([&] { encode(spec, "x"); }), "<none>"));
}

TEST(BpeModel, HasIndependentPartsUnlessCharactersVanishOrStandInsMerge) {
  EXPECT_TRUE(BpeModel(char_model()).has_independent_parts());
  BpeSpec dropping = char_model();
  dropping.unk_token.reset();
  EXPECT_FALSE(BpeModel(dropping).has_independent_parts());
  BpeSpec merging = char_model();
  merging.vocab.emplace_back("<unk>a", 6);
  merging.merges.emplace_back("<unk>", "a");
  EXPECT_FALSE(BpeModel(merging).has_independent_parts());
}

TEST(BpeModel, MergesOfAForbiddenTokenAreLeftOut) {
  const BpeModel model(char_model());
  BpeScratch scratch;
  Ids ids;
  std::vector<bool> forbidden(6);
  forbidden[3] = true;
  model.encode_word_without(forbidden, "ab", WordForm::kChars, &scratch, &ids);
  EXPECT_EQ(ids, (Ids{1, 2}));
  EXPECT_TRUE(model.is_reachable(3));
  EXPECT_FALSE(model.is_reachable(1));
}

// fault:D7
TEST(BpeModel, RefusesMergesOfUnknownTokens) {
  BpeSpec spec = char_model();
  spec.merges.emplace_back("a", "zz");
  EXPECT_TRUE(contains(error_text<DataError>([&] { BpeModel{spec}; }), "\"a\" + \"zz\""));
  spec.merges.back() = {"b", "b"};  // both are tokens, their joined text is none
  EXPECT_TRUE(contains(error_text<DataError>([&] { BpeModel{spec}; }), "\"b\" + \"b\""));
}

// fault:D7: the only merge that does not make its token longer, so the only way to a cycle
TEST(BpeModel, RefusesMergesWithAnEmptySide) {
  BpeSpec spec = char_model();
  spec.vocab.emplace_back("", 6);
  spec.merges.emplace_back("", "a");
  EXPECT_TRUE(contains(error_text<DataError>([&] { BpeModel{spec}; }), "merge 2"));
}

// fault:D7
TEST(BpeModel, RefusesDuplicateTextsAndIds) {
  BpeSpec spec = char_model();
  spec.vocab.emplace_back("c", 2);
  EXPECT_TRUE(contains(error_text<DataError>([&] { BpeModel{spec}; }), "\"c\" is a duplicate"));
  spec.vocab.back() = {"a", 6};
  EXPECT_TRUE(contains(error_text<DataError>([&] { BpeModel{spec}; }), "\"a\" is a duplicate"));
}

// fault:D7
TEST(BpeModel, RefusesIdsFarBeyondTheVocabularyButTakesHoles) {
  BpeSpec spec = char_model();
  spec.vocab.emplace_back("c", 100);
  EXPECT_EQ(BpeModel(spec).tokens().size(), 101);
  spec.vocab.back().second = INT32_MAX;
  EXPECT_TRUE(contains(error_text<DataError>([&] { BpeModel{spec}; }), "\"c\" has an id out of range"));
}

}  // namespace
}  // namespace litespark::token
