// SPDX-License-Identifier: Apache-2.0
// Whole files: hostile JSON, missing files, and every prefix of a good one.
#include "support/temporary_folder.h"
#include "token/tokenizer.h"
#include "token/tokenizer_file.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

std::string refusal(std::string_view json) {
  return error_text<DataError>([&] { Tokenizer::parse(json); });
}

std::string with_model(std::string_view more) {
  return R"({"version": "1.0", )" + std::string(more) + R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})";
}

TEST(TokenizerFile, ReadsTheSmallestTokenizer) {
  EXPECT_EQ(Tokenizer::parse(with_model("")).encode("aa"), (std::vector<int32_t>{0, 0}));
}

TEST(TokenizerFile, LoadsAFolderOrAFile) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("tokenizer.json", with_model(""));
  EXPECT_EQ(Tokenizer::load(folder.path()).hash(), Tokenizer::load(file).hash());
  EXPECT_EQ(Tokenizer::load(file).hash(), content_hash(with_model("")));
}

TEST(TokenizerFile, NamesAFileThatIsMissing) {
  const test::TemporaryFolder folder;
  const std::string message = error_text<IoError>([&] { Tokenizer::load(folder.path()); });
  EXPECT_TRUE(contains(message, "tokenizer.json"));
}

// fault:D7
TEST(TokenizerFile, RefusesSettingsThatItWouldIgnore) {
  EXPECT_TRUE(contains(refusal(with_model(R"("truncation": {"max_length": 5}, )")), "truncation"));
  EXPECT_TRUE(contains(refusal(with_model(R"("padding": {"length": 5}, )")), "padding"));
  EXPECT_TRUE(contains(refusal(R"({"version": "2.0"})"), "version"));
}

// fault:D7
TEST(TokenizerFile, RefusesHostileJson) {
  EXPECT_TRUE(contains(refusal(""), "JSON"));
  EXPECT_TRUE(contains(refusal("[1, 2]"), "tokenizer.json"));
  EXPECT_TRUE(contains(refusal(std::string(100000, '[')), "JSON"));
  EXPECT_TRUE(contains(refusal(with_model("\"normalizer\": {\"type\": \"\xFF\"}, ")), "JSON"));
  EXPECT_TRUE(contains(refusal(R"({"model": {"type": "\ud800"}})"), "JSON"));
  EXPECT_TRUE(contains(refusal(R"({"model": {"vocab": {"a": 1e999}, "merges": []}})"), "tokenizer.json"));
}

// fault:D7
TEST(TokenizerFile, RefusesDeeplyNestedSequences) {
  std::string node = R"({"type": "NFC"})";
  for (int i = 0; i < 300; ++i) node = R"({"type": "Sequence", "normalizers": [)" + node + "]}";
  EXPECT_TRUE(contains(refusal(with_model("\"normalizer\": " + node + ", ")), "deep"));
}

// fault:D7
TEST(TokenizerFile, RefusesEveryPrefixOfAGoodFile) {
  const std::string good = with_model(R"("decoder": {"type": "Fuse"}, )");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(Tokenizer::parse(good.substr(0, size)), DataError) << size;
  }
}

// fault:D7
TEST(TokenizerFile, AChangedByteIsRefusedOrGivesATokenizer) {
  const std::string file = test::file_text(test::golden_folder("tokenizer-bpe-llama3") / "tokenizer.json");
  const std::string good = file.substr(0, file.find("\"vocab\"")) + R"("vocab": {"a": 2, "<|begin|>": 0, "<|end|>": 1},
    "merges": []}})";
  ASSERT_NO_THROW(Tokenizer::parse(good));
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 7));
    try {
      Tokenizer::parse(changed).encode("a<|end|> 12");
    } catch (const DataError&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace litespark::token
