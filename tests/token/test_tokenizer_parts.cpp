// SPDX-License-Identifier: Apache-2.0
// The facts that are worked out once about a tokenizer.
#include "token/tokenizer_parts.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

TEST(TokenizerParts, ListsSpecialTokensAndTheTextsOfAllIds) {
  TokenizerSpec spec = byte_tokenizer({{"Ġ", "a"}});
  spec.added_tokens = {{.id = 257, .content = "<s> x", .normalized = false, .special = true}};
  const TokenizerParts parts(spec);
  EXPECT_EQ(parts.vocabulary_size(), 258);
  EXPECT_TRUE(parts.special[257] && parts.skipped[257]);
  EXPECT_FALSE(parts.special[256]);
  EXPECT_EQ(parts.texts[256], " a");     // raw bytes, since the decoder is byte level
  EXPECT_EQ(parts.texts[257], "<s> x");  // a space is not of the alphabet: as it stands
  EXPECT_FALSE(parts.guards_special);
}

TEST(TokenizerParts, ASpecialTokenThatNormalizesAwayIsNotSkipped) {
  TokenizerSpec spec = byte_tokenizer({});
  spec.normalizers = {{.kind = NormalizerSpec::Kind::kLowercase}};
  spec.added_tokens = {{.id = 256, .content = "<S>", .normalized = true, .special = true}};
  const TokenizerParts parts(spec);
  EXPECT_EQ(parts.texts[256], "<s>");
  EXPECT_FALSE(parts.skipped[256]);
}

TEST(TokenizerParts, NoticesThatMergesReachASpecialToken) {
  TokenizerSpec spec = byte_tokenizer({{"a", "b"}});
  spec.added_tokens = {{.id = 256, .content = "ab", .normalized = false, .special = true}};
  EXPECT_TRUE(TokenizerParts(spec).guards_special);
}

// fault:D7
TEST(TokenizerParts, RefusesATemplateWithAnIdThatIsNoToken) {
  TokenizerSpec spec = byte_tokenizer({});
  spec.post_processor.single.push_back({TemplatePiece::Kind::kSpecial, {256}});
  EXPECT_TRUE(contains(error_text<DataError>([&] { TokenizerParts{spec}; }), "got 256"));
}

}  // namespace
}  // namespace litespark::token
