// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "data/shard_set.h"
#include "prepare/compressed_files.h"
#include "prepare/prepare.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

struct PrepareTest : testing::Test {
  const test::TemporaryFolder scratch;
  fs::path folder = scratch.path() / "prepare_test";
  PrepareConfig config;

  void SetUp() override {
    fs::remove_all(folder);
    fs::create_directories(folder);
    config.tokenizer.path = std::string(LITESPARK_SOURCE_DIR) + "/tests/golden/tokenizer-bpe-gpt2";
    config.output.path = (folder / "train").string();
  }
  std::string write_lines(const std::string& name, int count) const {
    std::string text;
    for (int i = 0; i < count; ++i) text += "This is document number " + std::to_string(i) + ".\n";
    write_gzip(folder / name, text);
    return (folder / name).string();
  }
};

TEST_F(PrepareTest, MakesShardsThatDecodeToTheText) {  // report:B47
  config.input = {.paths = {write_lines("a.gz", 30)}, .split = DocumentSplit::kLine};
  config.tokenizer.append = "<|end|>";
  int64_t done = 0, total = -1;
  const PrepareReport report = prepare_data(config, [&](int64_t now, int64_t all) { done = now, total = all; });
  EXPECT_EQ(report.train.documents(), 30);
  EXPECT_EQ(done, total);
  EXPECT_EQ(report.train.sources.at(0).name, "a.gz");
  const auto tokenizer = token::Tokenizer::load(config.tokenizer.path);
  EXPECT_EQ(report.train.tokenizer_hash, tokenizer.hash());
  const ShardSet shards = ShardSet::open(config.output.path);
  for (int64_t d = 0; d < 30; ++d) {
    std::vector<int32_t> ids(static_cast<size_t>(shards.document_end(d) - shards.document_begin(d)));
    shards.read(shards.document_begin(d), ids);
    EXPECT_EQ(tokenizer.decode(ids, false), "This is document number " + std::to_string(d) + ".<|end|>");
  }
}

TEST_F(PrepareTest, HoldsOutEveryNthDocument) {
  config.input = {.paths = {write_lines("a.gz", 25), write_lines("b.gz", 25)}, .split = DocumentSplit::kLine};
  config.output.eval_path = (folder / "eval").string();
  config.output.eval_every = 20;
  const PrepareReport report = prepare_data(config);
  EXPECT_EQ(report.train.documents(), 48);
  EXPECT_EQ(report.eval.documents(), 2);
  const ShardSet eval = ShardSet::open(config.output.eval_path);
  const auto tokenizer = token::Tokenizer::load(config.tokenizer.path);
  std::vector<int32_t> ids(static_cast<size_t>(eval.document_end(0)));
  eval.read(0, ids);
  EXPECT_EQ(tokenizer.decode(ids, false), "This is document number 19.");
  EXPECT_EQ(eval.description().text_bytes, 27 + 27);
}

TEST_F(PrepareTest, UserTextNeverBecomesAControlToken) {
  write_plain(folder / "a.txt", "before <|end|> after");
  config.input.paths = {(folder / "a.txt").string()};
  prepare_data(config);
  const auto tokenizer = token::Tokenizer::load(config.tokenizer.path);
  const ShardSet shards = ShardSet::open(config.output.path);
  std::vector<int32_t> ids(static_cast<size_t>(shards.num_tokens()));
  shards.read(0, ids);
  for (const int32_t id : ids) EXPECT_FALSE(tokenizer.is_special(id));
  EXPECT_EQ(tokenizer.decode(ids, true), "before <|end|> after");
}

TEST_F(PrepareTest, HoldingOutNoneOfTooFewDocumentsIsRefusedAndNothingIsLeftBehind) {
  config.input = {.paths = {write_lines("a.gz", 25)}, .split = DocumentSplit::kLine};
  config.output.eval_path = (folder / "eval").string();
  config.output.eval_every = 26;
  const auto refusal = [&] { return error_text<ConfigError>([&] { prepare_data(config); }); };
  const std::string expected =
      "[output.eval_every] is larger than the number of documents, so none would be held out; got 26, expected at most "
      "25";
  EXPECT_EQ(refusal(), expected);
  config.tokenizer = {.path = (folder / "tokenizer").string(), .train_vocab_size = 300};
  EXPECT_EQ(refusal(), expected);
  for (const char* name : {"train", "eval", "tokenizer"}) EXPECT_FALSE(fs::exists(folder / name)) << name;
  config.output.eval_every = 25;
  EXPECT_EQ(prepare_data(config).eval.documents(), 1);
}

TEST_F(PrepareTest, TextThatTheTokenizerRefusesIsNamedWithItsFileAndDocument) {
  write_plain(
      folder / "tokenizer.json",
      R"({"version": "1.0", "model": {"type": "BPE", "unk_token": "<unk>", "vocab": {"a": 0, "b": 1}, "merges": []}})");
  write_plain(folder / "good.txt", "ab\nba\n");
  write_plain(folder / "bad.txt", "ab\nbz\n");
  config.tokenizer.path = (folder / "tokenizer.json").string();
  config.input = {.paths = {(folder / "good.txt").string(), (folder / "bad.txt").string()},
                  .split = DocumentSplit::kLine};
  const std::string refusal = error_text<DataError>([&] { prepare_data(config); });
  EXPECT_TRUE(contains(refusal, "bad.txt document 2] ")) << refusal;
  EXPECT_FALSE(fs::exists(config.output.path));
}

TEST_F(PrepareTest, NamesWhatIsWrongAndLeavesNoFolder) {
  EXPECT_THROW(prepare_data(config), ConfigError);  // no input
  config.input.paths = {(folder / "absent.txt").string()};
  EXPECT_THROW(prepare_data(config), IoError);
  write_plain(folder / "empty.txt", "");
  config.input.paths = {(folder / "empty.txt").string()};
  EXPECT_THROW(prepare_data(config), DataError);  // fault:D16
  config.tokenizer.append = "<nonsense>";
  EXPECT_THROW(prepare_data(config), ConfigError);
  config.tokenizer.append = "";
  config.output.eval_every = 5;
  EXPECT_THROW(prepare_data(config), ConfigError);
  config.output.eval_path = config.output.path + "/";  // the same folder
  EXPECT_THROW(prepare_data(config), ConfigError);
  config.output.eval_path = config.output.path + "/held_out";  // inside the other
  EXPECT_THROW(prepare_data(config), ConfigError);
  config.output.eval_path = config.output.path + "-eval";
  config.output.eval_every = 1;  // nothing would be left
  EXPECT_THROW(prepare_data(config), ConfigError);
  EXPECT_FALSE(fs::exists(config.output.path));
}

}  // namespace
}  // namespace litespark
