// SPDX-License-Identifier: Apache-2.0
// fault:D10: the JSON that breaks parsers, or on which they disagree, is refused with the file's name and a reason.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "io/json_file.h"
#include "support/error_text.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

std::string repeated(const std::string& text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

TEST(JsonFile, ReadsWhatAnOrdinaryParserReads) {
  const std::string text =
      R"( {"a": [1, -2, 3.5e-3, true, false, null, "\u00e9\ud83d\ude00"], "b": {"c": {}}, "": []} )";
  EXPECT_EQ(parse_json(text, "text"), nlohmann::json::parse(text));
  for (const char* const scalar : {"1", "\"x\"", "null", "[]", "{}", "-0", "0.0", "9223372036854775807",
                                   "-9223372036854775808", "1e300", "[[[]], [{}], {\"a\": [[]]}]"}) {
    EXPECT_EQ(parse_json(scalar, "text"), nlohmann::json::parse(scalar)) << scalar;
  }
}

struct BadJson {
  std::string text;
  std::string reason;
};

TEST(JsonFile, RefusesWhatParsersDisagreeAbout) {  // fault:D10
  const std::vector<BadJson> table = {
      {"", "not valid JSON"},
      {"{\"a\": 1,}", "not valid JSON"},
      {"[1, 2", "not valid JSON"},
      {"[1] 2", "not valid JSON"},
      {"{'a': 1}", "not valid JSON"},
      {"[1 2]", "not valid JSON"},
      {"// comment\n{}", "not valid JSON"},
      {"[01]", "not valid JSON"},
      {"[.5]", "not valid JSON"},
      {"[+1]", "not valid JSON"},
      {"[0x10]", "not valid JSON"},
      {"[NaN]", "not valid JSON"},
      {"[Infinity]", "not valid JSON"},
      {"[-Infinity]", "not valid JSON"},
      {"[1e309]", "not valid JSON"},
      {"[1e301]", "past 1e300"},
      {"[-1.5e308]", "past 1e300"},
      {"[9223372036854775808]", "past 63 bits"},
      {"[18446744073709551616]", "past 63 bits"},
      {"[-9223372036854775809]", "past 63 bits"},
      {"[" + repeated("9", 400) + "]", "not valid JSON"},
      {"{\"a\": 1, \"a\": 1}", "duplicate key"},
      {"{\"b\": {\"a\": 1, \"c\": [{\"a\": 1}], \"a\": {}}}", "duplicate key"},
      {"{\"a\": 1, \"\\u0061\": 2}", "duplicate key"},
      {"[\"\xff\"]", "not valid JSON"},
      {"[\"\xc0\xaf\"]", "not valid JSON"},
      {"[\"\xed\xa0\x80\"]", "not valid JSON"},
      {"[\"\xf4\x90\x80\x80\"]", "not valid JSON"},
      {"[\"\xe2\x82\"]", "not valid JSON"},
      {"[\"\\ud800\"]", "not valid JSON"},
      {"[\"\\udc00\\ud800\"]", "not valid JSON"},
      {"[\"\\x41\"]", "not valid JSON"},
      {std::string("[\"a\0b\"]", 7), "not valid JSON"},
      {"[\"line\nbreak\"]", "not valid JSON"},
      {std::string("[]\0", 3), "not valid JSON"},
  };
  for (const BadJson& bad : table) {
    const std::string message = error_text<DataError>([&] { parse_json(bad.text, "some/file.json"); });
    EXPECT_TRUE(contains(message, "[some/file.json]")) << bad.text;
    EXPECT_TRUE(contains(message, bad.reason)) << bad.text;
    EXPECT_LT(message.size(), 1000U) << bad.text;
  }
}

TEST(JsonFile, RefusesAMillionNestedArraysWithoutDescending) {  // fault:D10
  for (const char* const open : {"[", "{\"a\":", "[{\"a\":"}) {
    EXPECT_TRUE(
        contains(error_text<DataError>([&] { parse_json(repeated(open, 1000000), "deep"); }), "nested too deeply"));
  }
  const JsonLimits limits{.max_depth = 64};
  EXPECT_NO_THROW(parse_json(repeated("[", 64) + repeated("]", 64), "deep", limits));
  EXPECT_THROW(parse_json(repeated("[", 65) + repeated("]", 65), "deep", limits), DataError);
}

TEST(JsonFile, CountsOnlyTheStructureOutsideStrings) {
  const std::string text = "[\"" + repeated("[{,:\\\"", 1000) + "\"]";
  EXPECT_EQ(parse_json(text, "text", {.max_depth = 1, .max_values = 2}), nlohmann::json::parse(text));
}

TEST(JsonFile, RefusesWhatIsPastALimit) {
  EXPECT_TRUE(
      contains(error_text<DataError>([] { parse_json("[1, 2, 3]", "long", {.max_bytes = 8}); }), "too long in bytes"));
  EXPECT_TRUE(
      contains(error_text<DataError>([] { parse_json("[1, 2, 3]", "many", {.max_values = 2}); }), "too many values"));
  for (const std::string& token : {"\"" + repeated("x", 100) + "\"", repeated(" ", 100), repeated("1", 100)}) {
    EXPECT_TRUE(contains(
        error_text<DataError>([&] { parse_json("[" + token + "]", "token", {.max_token_bytes = 50}); }), "too long"))
        << token;
  }
}

TEST(JsonFile, NamesTheFileThatIsMissingOrTooLong) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("a.json", "{\"a\": [1, 2]}");
  EXPECT_EQ(read_json_file(path)["a"][1], 2);
  EXPECT_TRUE(contains(error_text<IoError>([&] { read_json_file(folder.path() / "no.json"); }), "no.json"));
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_json_file(path, {.max_bytes = 5}); }), "a.json"));
}

}  // namespace
}  // namespace litespark
