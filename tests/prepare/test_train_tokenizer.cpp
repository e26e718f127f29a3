// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/shard_set.h"
#include "prepare/compressed_files.h"
#include "prepare/train_tokenizer.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

namespace fs = std::filesystem;

TEST(TrainTokenizer, LearnsFromTheInputWithoutTheHeldOutDocuments) {
  const test::TemporaryFolder scratch;
  const fs::path folder = scratch.path() / "train_tokenizer_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::string text;
  for (int i = 0; i < 100; ++i) text += i % 10 == 9 ? "zyxwvut zyxwvut zyxwvut\n" : "abracadabra says the magician\n";
  write_plain(folder / "a.txt", text);
  PrepareConfig config;
  config.input = {.paths = {(folder / "a.txt").string()}, .split = DocumentSplit::kLine};
  config.tokenizer = {.path = (folder / "tokenizer").string(), .train_vocab_size = 300, .append = "<|end|>"};
  config.output = {.path = (folder / "train").string(), .eval_path = (folder / "eval").string(), .eval_every = 10};
  const PrepareReport report = prepare_data(config);
  const auto tokenizer = token::Tokenizer::load(config.tokenizer.path);
  EXPECT_LE(tokenizer.vocabulary_size(), 300);
  EXPECT_EQ(report.train.tokenizer_hash, tokenizer.hash());
  EXPECT_LE(tokenizer.encode("abracadabra").size(), 2u);
  EXPECT_GE(tokenizer.encode("zyxwvut").size(), 6u);  // never seen
  EXPECT_EQ(report.eval.documents(), 10);
  EXPECT_THROW(train_tokenizer(config), ConfigError);  // never overwrites one
}

}  // namespace
}  // namespace litespark
