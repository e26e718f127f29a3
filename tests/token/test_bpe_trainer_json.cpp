// SPDX-License-Identifier: Apache-2.0
// The written tokenizer.json reads back and encodes by its own merges.
#include "support/temporary_folder.h"
#include "token/bpe_trainer.h"
#include "token/tokenizer.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

TrainedBpe sample(KnownPattern pattern) {
  BpeTrainer trainer({.vocabulary_size = 280,
                      .pattern = pattern,
                      .special_tokens = {"<|begin|>", "<|end|>"},
                      .begin_token = "<|begin|>"});
  for (int i = 0; i < 20; ++i) trainer.add("It's the same thing, isn't it? The \"thing\" \\ the other.\n\n 12345");
  return trainer.train();
}

TEST(BpeTrainerJson, ReadsBackWithEveryPattern) {
  for (const KnownPattern pattern : {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen}) {
    const TrainedBpe trained = sample(pattern);
    const Tokenizer tokenizer = Tokenizer::parse(tokenizer_json(trained));
    EXPECT_EQ(tokenizer.vocabulary_size(), 280);
    for (size_t id = 0; id < trained.tokens.size(); ++id) {
      EXPECT_EQ(tokenizer.token_to_id(trained.tokens[id]), static_cast<int32_t>(id));
    }
    const std::string text = "the thing is the other \"12345\"\n";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text), false), text);
    EXPECT_LT(tokenizer.encode(text).size(), text.size());
  }
}

// The tokenizers library loaded this file and computed its cases (GoldenTokenizer/tokenizer_trained).
TEST(BpeTrainerJson, WritesTheGoldenFileFromItsText) {
  const auto folder = test::golden_folder("tokenizer-trained");
  BpeTrainer trainer({.vocabulary_size = 600, .special_tokens = {"<|begin|>", "<|end|>"}, .begin_token = "<|begin|>"});
  trainer.add(test::file_text(folder / "text.txt"));
  EXPECT_EQ(tokenizer_json(trainer.train()), test::file_text(folder / "tokenizer.json"));
}

TEST(BpeTrainerJson, PutsTheBeginTokenBeforeTexts) {
  const Tokenizer tokenizer = Tokenizer::parse(tokenizer_json(sample(KnownPattern::kLlama3)));
  EXPECT_EQ(tokenizer.encode("x", {.add_special = true}).front(), 0);
  EXPECT_TRUE(tokenizer.is_special(0) && tokenizer.is_special(1));
}

}  // namespace
}  // namespace litespark::token
