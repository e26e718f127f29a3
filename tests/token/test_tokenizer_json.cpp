// SPDX-License-Identifier: Apache-2.0
// Every kind of normalizer, pre-tokenizer and decoder node, and the refusal of unknown ones by name.
#include "token/tokenizer_file.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

TokenizerSpec parse(std::string_view component, std::string_view node) {
  return parse_tokenizer_json("{\"" + std::string(component) + "\": " + std::string(node) +
                              R"(, "model": {"vocab": {"a": 0}, "merges": []}})");
}

std::string refusal(std::string_view component, std::string_view node) {
  return error_text<DataError>([&] { parse(component, node); });
}

TEST(TokenizerJson, ReadsNormalizersAndFlattensSequences) {
  const auto steps = parse("normalizer", R"({"type": "Sequence", "normalizers": [
    {"type": "NFC"}, {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"}]},
    {"type": "Replace", "pattern": {"Regex": "x+"}, "content": "y"},
    {"type": "Strip", "strip_left": false, "strip_right": true}]})")
                         .normalizers;
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[1].content, "_");
  EXPECT_TRUE(steps[2].pattern.is_regex);
  EXPECT_EQ(steps[2].pattern.text, "x+");
  EXPECT_FALSE(steps[3].strip_left);
  for (const char* type : {"NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "ByteLevel"}) {
    EXPECT_EQ(parse("normalizer", "{\"type\": \"" + std::string(type) + "\"}").normalizers.size(), 1u);
  }
}

TEST(TokenizerJson, ReadsPreTokenizers) {
  const auto steps = parse("pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": true},
    {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
    {"type": "Digits", "individual_digits": true},
    {"type": "Punctuation"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
    {"type": "CharDelimiterSplit", "delimiter": "é"}]})")
                         .pre_tokenizers;
  ASSERT_EQ(steps.size(), 7u);
  EXPECT_EQ(steps[0].behavior, SplitBehavior::kMergedWithNext);
  EXPECT_TRUE(steps[0].invert);
  EXPECT_TRUE(steps[1].use_regex);
  EXPECT_TRUE(steps[2].individual_digits);
  EXPECT_EQ(steps[3].behavior, SplitBehavior::kIsolated);
  EXPECT_EQ(steps[6].character, "é");
}

TEST(TokenizerJson, ReadsBothSpellingsOfMetaspace) {
  const auto old = parse("pre_tokenizer", R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true})");
  EXPECT_EQ(old.pre_tokenizers[0].prepend_scheme, PrependScheme::kAlways);
  EXPECT_TRUE(old.pre_tokenizers[0].split);
  const auto recent =
      parse("pre_tokenizer", R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false})");
  EXPECT_EQ(recent.pre_tokenizers[0].prepend_scheme, PrependScheme::kFirst);
  EXPECT_FALSE(recent.pre_tokenizers[0].split);
  EXPECT_TRUE(
      contains(refusal("pre_tokenizer", R"({"type": "Metaspace", "replacement": "▁", "add_prefix_space": false})"),
               "contradicts"));
}

TEST(TokenizerJson, ReadsDecoders) {
  const auto steps = parse("decoder", R"({"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "ByteFallback"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}, {"type": "BPEDecoder", "suffix": "</w>"}]})");
  ASSERT_EQ(steps.decoders->size(), 6u);
  EXPECT_EQ((*steps.decoders)[2].start, 1u);
  EXPECT_FALSE(parse("decoder", "null").decoders.has_value());
}

// fault:D7
TEST(TokenizerJson, NamesComponentsThatItDoesNotKnow) {
  EXPECT_TRUE(contains(refusal("normalizer", R"({"type": "Precompiled"})"), "Precompiled"));
  EXPECT_TRUE(contains(refusal("pre_tokenizer", R"({"type": "UnicodeScripts"})"), "UnicodeScripts"));
  EXPECT_TRUE(contains(refusal("decoder", R"({"type": "CTC"})"), "CTC"));
  EXPECT_TRUE(contains(refusal("decoder", R"({"type": "Sequence", "decoders": [{"type": "Odd"}]})"), "decoders[0]"));
}

// fault:D7
TEST(TokenizerJson, NamesMembersThatAreMissingOrWrong) {
  EXPECT_TRUE(contains(refusal("normalizer", R"({"type": "Prepend"})"), "\"prepend\""));
  EXPECT_TRUE(contains(refusal("pre_tokenizer", R"({"type": "ByteLevel", "add_prefix_space": 1})"), "a number"));
  EXPECT_TRUE(contains(refusal("pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "x"})"),
                       "behavior"));
  EXPECT_TRUE(contains(refusal("pre_tokenizer", R"({"type": "Metaspace", "replacement": "ab"})"), "one character"));
  EXPECT_TRUE(
      contains(refusal("pre_tokenizer", R"({"type": "Metaspace", "replacement": "a", "prepend_scheme": "sometimes"})"),
               "sometimes"));
  EXPECT_TRUE(contains(refusal("decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})"), "range"));
}

}  // namespace
}  // namespace litespark::token
