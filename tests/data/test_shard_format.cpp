// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/shard_format.h"

namespace litespark {
namespace {

TEST(ShardFormat, ReadsBackWhatItWrites) {
  const ShardDescription description{.tokenizer_hash = "h",
                                     .vocab_size = 70000,
                                     .token_bytes = 4,
                                     .text_bytes = 9,
                                     .shards = {{.name = "shard-00000", .tokens = int64_t{1} << 40, .documents = 3}},
                                     .sources = {{.name = "a.txt", .hash = "00", .bytes = 9}}};
  const ShardDescription back = parse_shard_description(shard_description_json(description), "shards.json");
  EXPECT_EQ(back.tokens(), int64_t{1} << 40);
  EXPECT_EQ(back.sources[0].name, "a.txt");
  EXPECT_EQ(back.text_bytes, 9);
}

TEST(ShardFormat, RefusesFieldsThatAreMissingNegativeOrContradictory) {
  const std::string good =
      shard_description_json({.vocab_size = 10, .shards = {{.name = "s", .tokens = 1, .documents = 1}}});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_NO_THROW(parse_shard_description(good, "x"));
  EXPECT_THROW(parse_shard_description(with("\"token_bytes\": 2", "\"token_bytes\": 4"), "x"), DataError);
  EXPECT_THROW(parse_shard_description(with("\"vocab_size\": 10", "\"vocab_size\": -1"), "x"), DataError);
  EXPECT_THROW(parse_shard_description(with("\"shards\"", "\"shard\""), "x"), DataError);
  EXPECT_THROW(parse_shard_description(with("\"format_version\": 1", "\"format_version\": 9"), "x"), DataError);
  EXPECT_THROW(parse_shard_description("[]", "x"), DataError);
}

TEST(ShardFormat, ChoosesTheTokenSizeByTheVocabulary) {
  EXPECT_EQ(token_bytes_of(65536), 2);
  EXPECT_EQ(token_bytes_of(65537), 4);
}

}  // namespace
}  // namespace litespark
