// SPDX-License-Identifier: Apache-2.0
// Lines in, lines out, in all four directions.
#include <sstream>

#include "token/tokenize_stream.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

Tokenizer sample() {
  TokenizerSpec spec = byte_tokenizer({{"a", "b"}});
  spec.added_tokens = {{.id = 257, .content = "<s>", .normalized = false, .special = true}};
  spec.post_processor.single.insert(spec.post_processor.single.begin(), {TemplatePiece::Kind::kSpecial, {257}});
  return Tokenizer(spec);
}

std::string run(const TokenizeOptions& options, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out;
  tokenize_stream(sample(), options, in, out);
  return out.str();
}

TEST(TokenizeStream, TurnsJsonLinesOfTextIntoJsonLinesOfIds) {
  EXPECT_EQ(run({.jsonl = true}, "{\"text\": \"ab<s>\"}\n\n{\"id\": 7, \"text\": \"\"}\n"),
            "{\"ids\": [257, 256, 257]}\n{\"ids\": [257]}\n");
  EXPECT_EQ(run({.jsonl = true, .no_special = true}, "{\"text\": \"ab\"}"), "{\"ids\": [256]}\n");
  EXPECT_EQ(run({.jsonl = true, .no_special = true, .plain_text = true}, "{\"text\": \"<s>\"}"),
            "{\"ids\": [60, 115, 62]}\n");
}

TEST(TokenizeStream, TurnsIdsBackIntoText) {
  EXPECT_EQ(run({.jsonl = true, .decode = true}, "{\"ids\": [257, 256, 10]}\n"), "{\"text\": \"<s>ab\\n\"}\n");
  EXPECT_EQ(run({.jsonl = true, .decode = true, .skip_special = true}, "{\"ids\": [257, 256]}\n"),
            "{\"text\": \"ab\"}\n");
}

TEST(TokenizeStream, TakesBareLinesWithoutJson) {
  EXPECT_EQ(run({.no_special = true}, "ab c\n\nx"), "256 32 99\n\n120\n");
  EXPECT_EQ(run({.decode = true}, "256  99\n\n"), "abc\n\n");
}

// fault:D9
TEST(TokenizeStream, NamesTheLineThatItCannotRead) {
  const TokenizeOptions json = {.jsonl = true};
  const auto refusal = [](const TokenizeOptions& options, const std::string& input) {
    return error_text<DataError>([&] { run(options, input); });
  };
  EXPECT_TRUE(contains(refusal(json, "{\"text\": \"a\"}\n{\"text\": \n"), "line 2"));
  EXPECT_TRUE(contains(refusal(json, "{\"test\": \"a\"}\n"), "\"text\""));
  EXPECT_TRUE(contains(refusal(json, "{\"text\": \"\\ud800\"}\n"), "JSON"));
  EXPECT_TRUE(contains(refusal({.jsonl = true, .decode = true}, "{\"ids\": [1.5]}\n"), "ids[0]"));
  EXPECT_TRUE(contains(refusal({.decode = true}, "1 x2\n"), "x2"));
  EXPECT_TRUE(contains(refusal({.decode = true}, "99999999999\n"), "99999999999"));
}

}  // namespace
}  // namespace litespark::token
