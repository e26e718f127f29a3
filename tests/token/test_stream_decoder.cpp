// SPDX-License-Identifier: Apache-2.0
// Pieces of a stream add up to the whole text and never split a character.
#include <random>

#include "support/temporary_folder.h"
#include "token/stream_decoder.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Ids = std::vector<int32_t>;

constexpr const char* kText = "Grüße,  北京大学 👩‍👩‍👧 don't\n\ttabs 𝔘 ﬁ e\u0301!";

TEST(StreamDecoder, HoldsBackUnfinishedCharacters) {
  const Tokenizer tokenizer(byte_tokenizer({}));
  StreamDecoder stream(tokenizer, true);
  EXPECT_EQ(stream.put('a'), "a");
  EXPECT_EQ(stream.put(0xE4), "");
  EXPECT_EQ(stream.put(0xB8), "");
  EXPECT_EQ(stream.put(0xAD), "中");
  EXPECT_EQ(stream.put(0xC3), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, DoesNotWaitForeverForAnInvalidSequence) {
  const Tokenizer tokenizer(byte_tokenizer({}));
  StreamDecoder stream(tokenizer, true);
  std::string text;
  for (int i = 0; i < 20; ++i) text += stream.put(0xFF);
  EXPECT_GE(text.size(), 3u * 15);
  text += stream.finish();
  EXPECT_EQ(text, tokenizer.decode(Ids(20, 0xFF), true));
}

TEST(StreamDecoder, PiecesAddUpToTheWholeTextForEveryKindOfDecoder) {
  for (const char* name : {"tokenizer-bpe-gpt2", "tokenizer-bpe-llama2", "tokenizer-bpe-llama3"}) {
    const Tokenizer tokenizer = Tokenizer::load(test::golden_folder(name));
    for (const bool skip_special : {true, false}) {
      const Ids ids = tokenizer.encode(kText, {.add_special = true, .parse_special = true});
      StreamDecoder stream(tokenizer, skip_special);
      std::string text;
      for (const int32_t id : ids) {
        const std::string piece = stream.put(id);
        EXPECT_TRUE(is_valid_utf8(piece));
        text += piece;
      }
      text += stream.finish();
      EXPECT_EQ(text, tokenizer.decode(ids, skip_special)) << name;
    }
  }
}

TEST(StreamDecoder, LeavesSpecialTokensAndStrangersOut) {
  TokenizerSpec spec = byte_tokenizer({});
  spec.added_tokens = {{.id = 256, .content = "<s>", .normalized = false, .special = true}};
  const Tokenizer tokenizer(spec);
  StreamDecoder stream(tokenizer, true);
  EXPECT_EQ(stream.put(256) + stream.put('a') + stream.put(9999) + stream.put(256) + stream.put('b'), "ab");
  StreamDecoder loud(tokenizer, false);
  EXPECT_EQ(loud.put(256), "<s>");
}

TEST(StreamDecoder, TakesRandomIdsWithoutLosingText) {
  const Tokenizer tokenizer = Tokenizer::load(test::golden_folder("tokenizer-bpe-gpt2"));
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    Ids ids;
    for (int i = 0; i < 40; ++i) ids.push_back(static_cast<int32_t>(random() % 1500));
    StreamDecoder stream(tokenizer, false);
    std::string text;
    for (const int32_t id : ids) text += stream.put(id);
    text += stream.finish();
    EXPECT_EQ(text.size() > 20, true);
    EXPECT_TRUE(is_valid_utf8(text));
  }
}

}  // namespace
}  // namespace litespark::token
