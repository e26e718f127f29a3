// SPDX-License-Identifier: Apache-2.0
// The path of a text, and the guard that keeps plain text from becoming special tokens.
#include <thread>

#include "token/encoder.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Ids = std::vector<int32_t>;

Ids encode(const TokenizerParts& parts, std::string_view text, bool parse_special) {
  EncodeScratch scratch;
  Ids ids;
  encode_text(parts, text, parse_special, &scratch, &ids);
  return ids;
}

TEST(Encoder, CutsAddedTokensOutBeforeAndAfterNormalizing) {
  TokenizerSpec spec = byte_tokenizer({});
  spec.normalizers = {{.kind = NormalizerSpec::Kind::kLowercase}};
  spec.added_tokens = {{.id = 256, .content = "<S>", .normalized = false, .special = true},
                       {.id = 257, .content = "XY", .normalized = true}};
  const TokenizerParts parts(spec);
  EXPECT_EQ(encode(parts, "A<S>xYb", true), (Ids{'a', 256, 257, 'b'}));
  EXPECT_EQ(encode(parts, "<S>", false), (Ids{'<', 's', '>'}));
}

TEST(Encoder, NeverLetsPlainTextBecomeASpecialTokenByMerges) {
  TokenizerSpec spec = byte_tokenizer({{"a", "b"}, {"ab", "c"}});
  spec.added_tokens = {{.id = 257, .content = "abc", .normalized = false, .special = true}};
  const TokenizerParts parts(spec);
  EXPECT_EQ(encode(parts, "abc", true), (Ids{257}));
  EXPECT_EQ(encode(parts, "abc", false), (Ids{256, 'c'}));
}

TEST(Encoder, NeverLetsPlainTextBecomeASpecialTokenAsAWholeWord) {
  TokenizerSpec spec = byte_tokenizer({});
  spec.model.vocab.emplace_back("begin", 256);
  spec.model.ignore_merges = true;
  spec.added_tokens = {{.id = 256, .content = "begin", .normalized = false, .special = true}};
  const TokenizerParts parts(spec);
  EXPECT_EQ(encode(parts, "begin", true), (Ids{256}));
  EXPECT_EQ(encode(parts, "begin", false), (Ids{'b', 'e', 'g', 'i', 'n'}));
}

TEST(Encoder, ThreadsTakeDifferentScratchFromAPool) {
  ScratchPool pool;
  std::unique_ptr<EncodeScratch> first = pool.take();
  std::unique_ptr<EncodeScratch> second = pool.take();
  EXPECT_NE(first, second);
  const EncodeScratch* kept = second.get();
  pool.give_back(std::move(second));
  EXPECT_EQ(pool.take().get(), kept);
}

}  // namespace
}  // namespace litespark::token
