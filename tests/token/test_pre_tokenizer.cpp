// SPDX-License-Identifier: Apache-2.0
// Each pre-tokenizer alone and in chains.
#include "token/known_pattern.h"
#include "token/pre_tokenizer.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Kind = PreTokenizerSpec::Kind;
using Strings = std::vector<std::string>;

class Collector final : public WordSink {
 public:
  void add(std::string_view word) override { words.emplace_back(word); }
  Strings words;
};

Strings split(const std::vector<PreTokenizerSpec>& specs, std::string_view text, bool is_start = true) {
  PreTokenizerScratch scratch;
  Collector collector;
  PreTokenizer(specs).run(text, is_start, &scratch, &collector);
  return collector.words;
}

PreTokenizerSpec metaspace(PrependScheme scheme, bool cuts) {
  return {.kind = Kind::kMetaspace, .character = "▁", .prepend_scheme = scheme, .split = cuts};
}

const PreTokenizerSpec kByteLevel = {.kind = Kind::kByteLevel, .add_prefix_space = false};

TEST(PreTokenizer, WithoutStepsGivesTheTextAsOneWord) {
  EXPECT_EQ(split({}, "a b"), (Strings{"a b"}));
  EXPECT_TRUE(split({}, "").empty());
  EXPECT_EQ(PreTokenizer({}).word_form(), WordForm::kChars);
}

TEST(PreTokenizer, ByteLevelSplitsRawBytesIfItIsLast) {
  EXPECT_EQ(split({kByteLevel}, "it's a  dog1"), (Strings{"it", "'s", " a", " ", " dog", "1"}));
  EXPECT_EQ(PreTokenizer({kByteLevel}).word_form(), WordForm::kBytes);
  EXPECT_EQ(split({{.kind = Kind::kByteLevel, .add_prefix_space = true, .use_regex = false}}, "a b"),
            (Strings{" a b"}));
  EXPECT_EQ(split({{.kind = Kind::kByteLevel}}, " a"), (Strings{" a"}));
}

TEST(PreTokenizer, ByteLevelWritesItsAlphabetForStepsAfterIt) {
  const PreTokenizerSpec by_letter = {
      .kind = Kind::kSplit, .pattern = {false, "Ġ"}, .behavior = SplitBehavior::kRemoved};
  EXPECT_EQ(split({kByteLevel, by_letter}, "é b"), (Strings{"Ã©", "b"}));
}

TEST(PreTokenizer, SplitsByKnownAndByOtherPatterns) {
  const PreTokenizerSpec known = {.kind = Kind::kSplit, .pattern = {true, std::string(kLlama3Pattern)}};
  const PreTokenizerSpec bytes = {.kind = Kind::kByteLevel, .add_prefix_space = false, .use_regex = false};
  EXPECT_EQ(split({known, bytes}, "I'LL pay 12345\n\nx"), (Strings{"I", "'LL", " pay", " ", "123", "45", "\n\n", "x"}));
  const PreTokenizerSpec other = {.kind = Kind::kSplit, .pattern = {true, "\\d"}, .behavior = SplitBehavior::kRemoved};
  EXPECT_EQ(split({other}, "a1b22c"), (Strings{"a", "b", "c"}));
  PreTokenizerSpec inverted = other;
  inverted.invert = true;
  EXPECT_EQ(split({inverted}, "a1b22c"), (Strings{"1", "2", "2"}));
}

TEST(PreTokenizer, SplitsDigitsAloneOrInRuns) {
  EXPECT_EQ(split({{.kind = Kind::kDigits, .individual_digits = true}}, "a12b½"), (Strings{"a", "1", "2", "b", "½"}));
  EXPECT_EQ(split({{.kind = Kind::kDigits}}, "a12b3"), (Strings{"a", "12", "b", "3"}));
}

TEST(PreTokenizer, MetaspaceWritesSpacesAsMarks) {
  EXPECT_EQ(split({metaspace(PrependScheme::kAlways, true)}, "a  b"), (Strings{"▁a", "▁", "▁b"}));
  EXPECT_EQ(split({metaspace(PrependScheme::kNever, true)}, "a b"), (Strings{"a", "▁b"}));
  EXPECT_EQ(split({metaspace(PrependScheme::kFirst, false)}, "a b"), (Strings{"▁a▁b"}));
  EXPECT_EQ(split({metaspace(PrependScheme::kFirst, false)}, "a b", false), (Strings{"a▁b"}));
  EXPECT_EQ(split({metaspace(PrependScheme::kAlways, false)}, " a"), (Strings{"▁a"}));
}

TEST(PreTokenizer, MetaspaceFirstMarksOnlyTheFirstPiece) {
  const PreTokenizerSpec words = {.kind = Kind::kWhitespaceSplit, .behavior = SplitBehavior::kRemoved};
  EXPECT_EQ(split({words, metaspace(PrependScheme::kFirst, true)}, "a b"), (Strings{"▁a", "b"}));
  EXPECT_EQ(split({words, metaspace(PrependScheme::kFirst, true)}, " a b"), (Strings{"a", "b"}));
}

TEST(PreTokenizer, SplitsByCharacterClasses) {
  EXPECT_EQ(split({{.kind = Kind::kPunctuation}}, "a,b。c$"), (Strings{"a", ",", "b", "。", "c", "$"}));
  EXPECT_EQ(split({{.kind = Kind::kWhitespace}}, "ab, c!? d_1"), (Strings{"ab", ",", "c", "!?", "d_1"}));
  EXPECT_EQ(split({{.kind = Kind::kWhitespaceSplit, .behavior = SplitBehavior::kRemoved}}, " a,\u00A0b "),
            (Strings{"a,", "b"}));
  EXPECT_EQ(split({{.kind = Kind::kDelimiter, .behavior = SplitBehavior::kRemoved, .character = "é"}}, "aéébc"),
            (Strings{"a", "bc"}));
}

}  // namespace
}  // namespace litespark::token
