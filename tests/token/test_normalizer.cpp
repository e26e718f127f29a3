// SPDX-License-Identifier: Apache-2.0
// Chains of normalizers, and whether the first character is still the first.
#include "token/normalizer.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

using Kind = NormalizerSpec::Kind;

struct Result {
  std::string text;
  bool keeps_start = true;
};

Result normalize(const std::vector<NormalizerSpec>& specs, std::string_view text) {
  Result result;
  std::string buffer;
  result.text = Normalizer(specs).apply(text, &buffer, &result.keeps_start);
  return result;
}

TEST(Normalizer, WithoutStepsIsTheIdentity) {
  EXPECT_TRUE(Normalizer({}).is_identity());
  EXPECT_EQ(normalize({}, "x y").text, "x y");
}

TEST(Normalizer, PrependsToTextsThatAreNotEmptyAndReplaces) {
  const std::vector<NormalizerSpec> llama = {{.kind = Kind::kPrepend, .content = "▁"},
                                             {.kind = Kind::kReplace, .pattern = {false, " "}, .content = "▁"}};
  EXPECT_EQ(normalize(llama, "a b  c").text, "▁a▁b▁▁c");
  EXPECT_EQ(normalize(llama, "").text, "");
  EXPECT_TRUE(normalize(llama, " a").keeps_start);
}

TEST(Normalizer, ReplacesByRegularExpression) {
  const std::vector<NormalizerSpec> squeeze = {{.kind = Kind::kReplace, .pattern = {true, " {2,}"}, .content = " "}};
  EXPECT_EQ(normalize(squeeze, "a   b  c").text, "a b c");
  EXPECT_FALSE(normalize(squeeze, "  a").keeps_start);
  EXPECT_TRUE(normalize(squeeze, " a").keeps_start);
}

TEST(Normalizer, LowersStripsAndDropsAccents) {
  EXPECT_EQ(normalize({{.kind = Kind::kLowercase}}, "ÀBİß").text, "àbi\u0307ß");
  const Result stripped = normalize({{.kind = Kind::kStrip}}, "\t\u3000x y\n");
  EXPECT_EQ(stripped.text, "x y");
  EXPECT_FALSE(stripped.keeps_start);
  EXPECT_EQ(normalize({{.kind = Kind::kStrip, .strip_left = false}}, " x ").text, " x");
  EXPECT_EQ(normalize({{.kind = Kind::kNfd}, {.kind = Kind::kStripAccents}}, "éà").text, "ea");
  EXPECT_EQ(normalize({{.kind = Kind::kByteLevel}}, " é").text, "ĠÃ©");
}

TEST(Normalizer, ChainsStepsThatCopyAndStepsThatDoNot) {
  const std::vector<NormalizerSpec> chain = {{.kind = Kind::kNfc},
                                             {.kind = Kind::kLowercase},
                                             {.kind = Kind::kStrip},
                                             {.kind = Kind::kPrepend, .content = "_"}};
  EXPECT_EQ(normalize(chain, " E\u0301A ").text, "_éa");
}

TEST(Normalizer, RefusesAnEmptyPattern) {
  EXPECT_TRUE(contains(error_text<DataError>([] { Normalizer({{.kind = Kind::kReplace}}); }), "empty"));
}

}  // namespace
}  // namespace litespark::token
