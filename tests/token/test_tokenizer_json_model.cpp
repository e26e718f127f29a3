// SPDX-License-Identifier: Apache-2.0
// The model, added token and post-processor nodes.
#include "token/tokenizer_file.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

TokenizerSpec parse_model(std::string_view members) {
  return parse_tokenizer_json(R"({"model": {"type": "BPE", )" + std::string(members) + "}}");
}

std::string refuse_model(std::string_view members) {
  return error_text<DataError>([&] { parse_model(members); });
}

TokenizerSpec parse_post(std::string_view node) {
  return parse_tokenizer_json("{\"post_processor\": " + std::string(node) +
                              R"(, "model": {"vocab": {"a": 0, "s": 1}, "merges": []}})");
}

std::string refuse_post(std::string_view node) {
  return error_text<DataError>([&] { parse_post(node); });
}

constexpr std::string_view kAb = R"("vocab": {"a": 0, "b": 1, "ab": 2}, )";

TEST(TokenizerJsonModel, ReadsMergesAsLinesAndAsPairs) {
  const std::pair<std::string, std::string> expected("a", "b");
  EXPECT_EQ(parse_model(std::string(kAb) + R"("merges": ["#version: 0.2", "a b"])").model.merges.at(0), expected);
  EXPECT_EQ(parse_model(std::string(kAb) + R"("merges": [["a", "b"]])").model.merges.at(0), expected);
}

TEST(TokenizerJsonModel, ReadsTheFlags) {
  const BpeSpec spec = parse_model(std::string(kAb) + R"("merges": [], "unk_token": "<u>", "fuse_unk": true,
    "byte_fallback": true, "ignore_merges": true, "dropout": null, "continuing_subword_prefix": "",
    "end_of_word_suffix": null)")
                           .model;
  EXPECT_EQ(spec.unk_token, "<u>");
  EXPECT_TRUE(spec.fuse_unk && spec.byte_fallback && spec.ignore_merges);
}

// fault:D7
TEST(TokenizerJsonModel, RefusesWhatItDoesNotDo) {
  EXPECT_TRUE(contains(refuse_model(std::string(kAb) + R"("merges": [], "dropout": 0.1)"), "dropout"));
  EXPECT_TRUE(contains(refuse_model(std::string(kAb) + R"("merges": [], "end_of_word_suffix": "</w>")"), "</w>"));
  EXPECT_TRUE(contains(refuse_model(std::string(kAb) + R"("merges": [], "continuing_subword_prefix": "##")"), "##"));
  EXPECT_TRUE(
      contains(error_text<DataError>([] { parse_tokenizer_json(R"({"model": {"type": "Unigram"}})"); }), "Unigram"));
}

// fault:D7
TEST(TokenizerJsonModel, RefusesMalformedVocabulariesAndMerges) {
  EXPECT_TRUE(contains(refuse_model(R"("merges": [])"), "\"vocab\""));
  EXPECT_TRUE(contains(refuse_model(R"("vocab": {}, "merges": [])"), "empty"));
  EXPECT_TRUE(contains(refuse_model(R"("vocab": {"a": -1}, "merges": [])"), "vocab.a"));
  EXPECT_TRUE(contains(refuse_model(R"("vocab": {"a": 4294967296}, "merges": [])"), "4294967296"));
  EXPECT_TRUE(contains(refuse_model(R"("vocab": {"a": 1.5}, "merges": [])"), "an integer"));
  EXPECT_TRUE(contains(refuse_model(std::string(kAb) + R"("merges": ["ab"])"), "\"ab\""));
  EXPECT_TRUE(contains(refuse_model(std::string(kAb) + R"("merges": ["a b c"])"), "merges[0]"));
  EXPECT_TRUE(contains(refuse_model(std::string(kAb) + R"("merges": [["a"]])"), "no pair"));
}

TEST(TokenizerJsonModel, ReadsAddedTokens) {
  const auto tokens = parse_tokenizer_json(R"({"added_tokens": [{"id": 1, "content": "<s>", "single_word": false,
    "lstrip": true, "rstrip": false, "normalized": false, "special": true}], "model": {"vocab": {"a": 0}, "merges": []}})")
                          .added_tokens;
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].content, "<s>");
  EXPECT_TRUE(tokens[0].lstrip && tokens[0].special && !tokens[0].normalized);
}

TEST(TokenizerJsonModel, ReadsTemplatesInSequences) {
  const TemplateSpec spec = parse_post(R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false},
    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "s", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
     "pair": [{"Sequence": {"id": "B", "type_id": 1}}, {"Sequence": {"id": "A", "type_id": 0}}],
     "special_tokens": {"s": {"id": "s", "ids": [1, 0], "tokens": ["s", "a"]}}}]})")
                                .post_processor;
  ASSERT_EQ(spec.single.size(), 2u);
  EXPECT_EQ(spec.single[0].ids, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(spec.pair[0].kind, TemplatePiece::Kind::kSecond);
}

TEST(TokenizerJsonModel, ReadsBertsAndRobertasProcessors) {
  const auto bert = parse_post(R"({"type": "BertProcessing", "sep": ["s", 1], "cls": ["a", 0]})").post_processor;
  EXPECT_EQ(bert.single.size(), 3u);
  EXPECT_EQ(bert.pair.size(), 5u);
  const auto roberta = parse_post(R"({"type": "RobertaProcessing", "sep": ["s", 1], "cls": ["a", 0],
    "trim_offsets": true, "add_prefix_space": true})")
                           .post_processor;
  EXPECT_EQ(roberta.pair.size(), 6u);
  EXPECT_EQ(roberta.pair[0].ids, (std::vector<int32_t>{0}));
}

// fault:D7
TEST(TokenizerJsonModel, RefusesBrokenTemplates) {
  EXPECT_TRUE(
      contains(refuse_post(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}],
    "pair": [], "special_tokens": {}})"),
               "\"x\""));
  EXPECT_TRUE(
      contains(refuse_post(R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}],
    "pair": [], "special_tokens": {}})"),
               "names no sequence"));
  EXPECT_TRUE(contains(refuse_post(R"({"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}})"),
                       "does not use the text"));
  EXPECT_TRUE(contains(refuse_post(R"({"type": "Sequence", "processors": [
    {"type": "BertProcessing", "sep": ["s", 1], "cls": ["a", 0]},
    {"type": "BertProcessing", "sep": ["s", 1], "cls": ["a", 0]}]})"),
                       "too many"));
  EXPECT_TRUE(contains(refuse_post(R"({"type": "Odd"})"), "Odd"));
}

}  // namespace
}  // namespace litespark::token
