// SPDX-License-Identifier: Apache-2.0
// Each decoder alone and Llama-2's chain.
#include "token/decoder.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Kind = DecoderSpec::Kind;

std::string decode(const std::vector<DecoderSpec>& specs, const std::vector<std::string>& tokens) {
  return Decoder(specs).decode(tokens);
}

TEST(Decoder, JoinsWithSpacesIfThereIsNone) {
  EXPECT_EQ(Decoder(std::nullopt).decode({"a", "b"}), "a b");
  EXPECT_FALSE(Decoder(std::nullopt).is_byte_level());
}

TEST(Decoder, ByteLevelGivesBytesAndRepairsThem) {
  EXPECT_EQ(decode({{.kind = Kind::kByteLevel}}, {"Ġa", "Ã", "©", "中"}), " aé中");
  EXPECT_EQ(decode({{.kind = Kind::kByteLevel}}, {"Ã", "x"}), "\uFFFDx");
  EXPECT_TRUE(Decoder(std::vector<DecoderSpec>{{.kind = Kind::kByteLevel}}).is_byte_level());
}

TEST(Decoder, ByteFallbackTakesRunsWholeOrNotAtAll) {
  const std::vector<DecoderSpec> fallback = {{.kind = Kind::kByteFallback}};
  EXPECT_EQ(decode(fallback, {"<0xC3>", "<0xA9>", "x"}), "éx");
  EXPECT_EQ(decode(fallback, {"<0x41>", "<0xC3>", "x"}), "\uFFFD\uFFFDx");
  EXPECT_EQ(decode(fallback, {"<0x4>", "<0xZZ>", "<0x+4>"}), "<0x4><0xZZ>\x04");
}

TEST(Decoder, DecodesLlama2sChain) {
  const std::vector<DecoderSpec> llama = {{.kind = Kind::kReplace, .pattern = {false, "▁"}, .content = " "},
                                          {.kind = Kind::kByteFallback},
                                          {.kind = Kind::kFuse},
                                          {.kind = Kind::kStrip, .content = " ", .start = 1}};
  EXPECT_EQ(decode(llama, {"▁Hello", "▁▁", "<0xE4>", "<0xB8>", "<0xAD>"}), "Hello  中");
  EXPECT_EQ(decode(llama, {"▁▁x"}), " x");
}

TEST(Decoder, StripsUpToItsCountsOnBothSides) {
  const std::vector<DecoderSpec> strip = {{.kind = Kind::kStrip, .content = "_", .start = 2, .stop = 1}};
  EXPECT_EQ(decode(strip, {"___a__"}), "_a_");
  EXPECT_EQ(decode(strip, {"_", "__", ""}), "");
}

TEST(Decoder, MetaspaceDropsTheFirstTokensMarks) {
  EXPECT_EQ(decode({{.kind = Kind::kMetaspace, .content = "▁"}}, {"▁a", "▁b"}), "a b");
  EXPECT_EQ(decode({{.kind = Kind::kMetaspace, .content = "▁", .prepend_scheme = PrependScheme::kNever}}, {"▁a", "▁b"}),
            " a b");
}

TEST(Decoder, ReplacesByRegularExpressionAndEndsWords) {
  EXPECT_EQ(decode({{.kind = Kind::kReplace, .pattern = {true, "[0-9]+"}, .content = "#"}}, {"a12b3", "4"}), "a#b##");
  EXPECT_EQ(decode({{.kind = Kind::kBpe, .content = "</w>"}}, {"a</w>", "b</w>"}), "a b");
}

TEST(Decoder, RefusesEmptyPatterns) {
  EXPECT_TRUE(contains(error_text<DataError>([] { decode({{.kind = Kind::kReplace}}, {}); }), "empty"));
  EXPECT_TRUE(contains(error_text<DataError>([] { decode({{.kind = Kind::kStrip}}, {}); }), "empty"));
}

}  // namespace
}  // namespace litespark::token
