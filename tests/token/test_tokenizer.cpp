// SPDX-License-Identifier: Apache-2.0
// Whole tokenizers against the ids and texts of the tokenizers library 0.23 (tests/golden/tokenizer-*).
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "support/temporary_folder.h"
#include "token/tokenizer.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Ids = std::vector<int32_t>;

class GoldenTokenizer : public testing::TestWithParam<std::filesystem::path> {};

std::vector<std::filesystem::path> golden_tokenizers() {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_folder(""))) {
    if (entry.path().filename().string().starts_with("tokenizer-")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

TEST_P(GoldenTokenizer, GivesTheIdsAndTextsOfTheLibrary) {
  const Tokenizer tokenizer = Tokenizer::load(GetParam());
  std::ifstream stream(GetParam() / "cases.json");
  const nlohmann::json cases = nlohmann::json::parse(stream);
  ASSERT_GT(cases.size(), 10u);
  for (const auto& row : cases) {
    const auto text = row["text"].get<std::string>();
    const auto ids = row["ids"].get<Ids>();
    EXPECT_EQ(tokenizer.encode(text, {.add_special = true, .parse_special = true}), ids) << row["text"];
    EXPECT_EQ(tokenizer.encode(text, {.parse_special = true}), row["ids_without_special"].get<Ids>()) << row["text"];
    EXPECT_EQ(tokenizer.decode(ids, true), row["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, false), row["decoded_with_special"].get<std::string>());
  }
}

std::string case_name(const testing::TestParamInfo<std::filesystem::path>& param) {
  std::string name = param.param.filename().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Library, GoldenTokenizer, testing::ValuesIn(golden_tokenizers()), case_name);

TEST(Tokenizer, DefaultsToPlainTextWithoutSpecialTokens) {
  const Tokenizer tokenizer = Tokenizer::load(test::golden_folder("tokenizer-bpe-llama3"));
  for (const int32_t id : tokenizer.encode("<|begin|>hi<|end|>")) EXPECT_FALSE(tokenizer.is_special(id));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("<|begin|>hi<|end|>"), true), "<|begin|>hi<|end|>");
}

// report:B15
TEST(Tokenizer, AddsOneBeginTokenToATextAndNoneUnlessAsked) {
  const Tokenizer tokenizer = Tokenizer::load(test::golden_folder("tokenizer-bpe-llama3"));
  const int32_t begin = tokenizer.token_to_id("<|begin|>").value();
  const Ids with = tokenizer.encode("hello", {.add_special = true});
  EXPECT_EQ(std::count(with.begin(), with.end(), begin), 1);
  EXPECT_EQ(Ids(with.begin() + 1, with.end()), tokenizer.encode("hello"));
}

TEST(Tokenizer, JoinsPairsByTheirTemplate) {
  const Tokenizer tokenizer = Tokenizer::load(test::golden_folder("tokenizer-bpe-llama3"));
  Ids expected = tokenizer.encode("a", {.add_special = true});
  const Ids second = tokenizer.encode("b", {.add_special = true});
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(tokenizer.encode_pair("a", "b", {.add_special = true}), expected);
}

// fault:D9
TEST(Tokenizer, ByteLevelRoundTripsEveryValidText) {
  const Tokenizer tokenizer(byte_tokenizer({{"Ġ", "t"}, {"h", "e"}}));
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t size = random() % 60; size > 0; --size) {
      auto c = static_cast<char32_t>(random() % (random() % 3 == 0 ? 0x110000 : 128));
      if (c >= 0xD800 && c < 0xE000) c = 0;
      append_utf8(c, &text);
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), false), text);
  }
}

// fault:D9
TEST(Tokenizer, ReadsInvalidBytesAsReplacementCharacters) {
  const Tokenizer tokenizer(byte_tokenizer({}));
  EXPECT_EQ(tokenizer.encode("a\xFF\xED\xA0\x80z"), tokenizer.encode("a\uFFFD\uFFFD\uFFFD\uFFFDz"));
  EXPECT_EQ(tokenizer.decode(Ids{0xC3}, false), "\uFFFD");
}

// fault:D9
TEST(Tokenizer, TakesNulAndByteOrderMarksAsCharacters) {
  const Tokenizer tokenizer(byte_tokenizer({}));
  const std::string text("\uFEFFa\0b\0", 7);
  EXPECT_EQ(tokenizer.encode(text).size(), 7u);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), false), text);
}

// fault:D9
TEST(Tokenizer, EncodesALineOfManyMegabytes) {
  const Tokenizer tokenizer(byte_tokenizer({{"a", "a"}}));
  std::string text;
  while (text.size() < (8 << 20)) text += "aa b";
  EXPECT_EQ(tokenizer.encode(text).size(), text.size() / 4 * 3);
}

TEST(Tokenizer, LeavesOutIdsThatAreNoTokens) {
  TokenizerSpec spec = byte_tokenizer({});
  spec.model.vocab.emplace_back("far", 300);
  const Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.decode(Ids{-1, 'a', 299, 300, 5000}, false), "afar");
  EXPECT_EQ(tokenizer.vocabulary_size(), 301);
  EXPECT_FALSE(tokenizer.id_to_token(299));
  EXPECT_EQ(tokenizer.id_to_token(300), "far");
}

TEST(Tokenizer, GivesTheSameIdsFromManyThreads) {
  const Tokenizer tokenizer = Tokenizer::load(test::golden_folder("tokenizer-bpe-gpt2"));
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "word" + std::to_string(i * 7919 % 1000) + " ";
  const Ids expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) equal[t] += tokenizer.encode(text) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 20));
}

// fault:D8
TEST(Tokenizer, MustFitTheModelsEmbedding) {
  const Tokenizer tokenizer(byte_tokenizer({}));
  EXPECT_NO_THROW(check_vocabulary(tokenizer, 256));
  EXPECT_NO_THROW(check_vocabulary(tokenizer, 320));
  EXPECT_TRUE(
      contains(error_text<DataError>([&] { check_vocabulary(tokenizer, 255); }), "got 256, expected at most 255"));
}

// fault:D8
TEST(Tokenizer, SwappingTwoIdsChangesItsHash) {
  const std::string file = test::file_text(test::golden_folder("tokenizer-bpe-gpt2") / "tokenizer.json");
  const Tokenizer original = Tokenizer::parse(file);
  std::string swapped = file;
  swapped.replace(swapped.find("\"A\": 34"), 7, "\"A\": 35");
  swapped.replace(swapped.find("\"B\": 35"), 7, "\"B\": 34");
  const Tokenizer other = Tokenizer::parse(swapped);
  EXPECT_EQ(original.hash().size(), 32u);
  EXPECT_NO_THROW(check_tokenizer_hash(original, original.hash()));
  EXPECT_TRUE(contains(error_text<DataError>([&] { check_tokenizer_hash(other, original.hash()); }), original.hash()));
}

}  // namespace
}  // namespace litespark::token
