// SPDX-License-Identifier: Apache-2.0
// Finding added tokens: leftmost, longest, with their flags; and the ids that the library gives them.
#include "token/added_tokens.h"
#include "token/bpe_model.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

struct Sample {
  BpeModel model{byte_model({})};
  Normalizer normalizer{{{.kind = NormalizerSpec::Kind::kLowercase}}};
};

using Piece = std::pair<std::string, int32_t>;

std::vector<Piece> cut(const std::vector<AddedTokenSpec>& specs, std::string_view text, AddedTokens::Split how) {
  const Sample sample;
  const AddedTokens added(specs, sample.model.tokens(), sample.normalizer);
  std::vector<TextSegment> segments;
  added.split(text, how, &segments);
  std::vector<Piece> pieces;
  for (const TextSegment& s : segments) pieces.emplace_back(text.substr(s.begin, s.end - s.begin), s.id);
  return pieces;
}

std::vector<Piece> cut(const std::vector<AddedTokenSpec>& specs, std::string_view text) {
  return cut(specs, text, {.normalized = false, .parse_special = true});
}

using Pieces = std::vector<Piece>;

TEST(AddedTokens, AreCutOutLeftmostAndLongest) {
  const std::vector<AddedTokenSpec> specs = {{.id = 256, .content = "<s>", .normalized = false},
                                             {.id = 257, .content = "<s>>", .normalized = false},
                                             {.id = 258, .content = ">x", .normalized = false}};
  EXPECT_EQ(cut(specs, "a<s>b"), (Pieces{{"a", -1}, {"<s>", 256}, {"b", -1}}));
  EXPECT_EQ(cut(specs, "<s>>x<s"), (Pieces{{"<s>>", 257}, {"x<s", -1}}));
  EXPECT_EQ(cut(specs, "<s>x"), (Pieces{{"<s>", 256}, {"x", -1}}));
  EXPECT_TRUE(cut(specs, "").empty());
}

TEST(AddedTokens, TakeTheSpacesTheyStrip) {
  const std::vector<AddedTokenSpec> specs = {{.id = 256, .content = "[L]", .lstrip = true, .normalized = false},
                                             {.id = 257, .content = "[R]", .rstrip = true, .normalized = false}};
  EXPECT_EQ(cut(specs, "a \t[L] b"), (Pieces{{"a", -1}, {" \t[L]", 256}, {" b", -1}}));
  EXPECT_EQ(cut(specs, "a [R]\u00A0 b"), (Pieces{{"a ", -1}, {"[R]\u00A0 ", 257}, {"b", -1}}));
  EXPECT_EQ(cut(specs, "[R]  [L]"), (Pieces{{"[R]  ", 257}, {"[L]", 256}}));
}

TEST(AddedTokens, StandAloneIfTheyMustBeSingleWords) {
  const std::vector<AddedTokenSpec> specs = {{.id = 256, .content = "dog", .single_word = true, .normalized = false}};
  EXPECT_EQ(cut(specs, "a dog, hotdog dogs"), (Pieces{{"a ", -1}, {"dog", 256}, {", hotdog dogs", -1}}));
}

TEST(AddedTokens, SpecialOnesAreTextIfTheyAreNotParsed) {
  const std::vector<AddedTokenSpec> specs = {{.id = 256, .content = "<s>", .normalized = false, .special = true},
                                             {.id = 257, .content = "word", .normalized = false}};
  EXPECT_EQ(cut(specs, "<s>word", {.normalized = false, .parse_special = false}), (Pieces{{"<s>", -1}, {"word", 257}}));
}

TEST(AddedTokens, MatchTheirNormalizedContentInNormalizedText) {
  const std::vector<AddedTokenSpec> specs = {{.id = 256, .content = "ABC", .normalized = true}};
  EXPECT_EQ(cut(specs, "xabc", {.normalized = true, .parse_special = true}), (Pieces{{"x", -1}, {"abc", 256}}));
  EXPECT_EQ(cut(specs, "xABC"), (Pieces{{"xABC", -1}}));
}

TEST(AddedTokens, TakeTheIdOfTheModelOrTheNextFreeOne) {
  const Sample sample;
  const AddedTokens added({{.id = 'a', .content = "a"}, {.id = 256, .content = "new"}}, sample.model.tokens(),
                          sample.normalizer);
  EXPECT_EQ(added.find("new"), 256);
  EXPECT_EQ(added.find("a"), 'a');
  EXPECT_EQ(added.find("b"), kNoId);
  EXPECT_EQ(added.vocabulary_size(), 257);
}

// fault:D7
TEST(AddedTokens, RefuseIdsThatTheLibraryWouldNotGive) {
  const Sample sample;
  const auto refuse = [&](const std::vector<AddedTokenSpec>& specs) {
    return error_text<DataError>([&] { AddedTokens(specs, sample.model.tokens(), sample.normalizer); });
  };
  EXPECT_TRUE(contains(refuse({{.id = 300, .content = "new"}}), "\"new\" has a wrong id; got 300, expected 256"));
  EXPECT_TRUE(contains(refuse({{.id = 5, .content = "a"}}), "\"a\" has a wrong id"));
}

// fault:D7
TEST(AddedTokens, RefuseDuplicatesAndGiantContents) {
  const Sample sample;
  const auto refuse = [&](const std::vector<AddedTokenSpec>& specs) {
    return error_text<DataError>([&] { AddedTokens(specs, sample.model.tokens(), sample.normalizer); });
  };
  EXPECT_TRUE(contains(refuse({{.id = 256, .content = "New"}, {.id = 257, .content = "nEW"}}), "same text"));
  EXPECT_TRUE(contains(refuse({{.id = 256, .content = std::string(2000, 'x')}}), "too long"));
}

}  // namespace
}  // namespace litespark::token
