// SPDX-License-Identifier: Apache-2.0
// The check of a case folder passes on the library's numbers and notices one wrong id.
#include <algorithm>

#include "support/temporary_folder.h"
#include "token/golden_cases.h"
#include "tokenizer_samples.h"

namespace litespark::token {
namespace {

TEST(GoldenCases, PassOnTheLibrarysNumbers) {
  const auto folder = test::golden_folder("tokenizer-bpe-llama2");
  ASSERT_TRUE(has_tokenizer_cases(folder));
  const std::vector<CaseCheck> checks = check_tokenizer_cases(folder);
  ASSERT_EQ(checks.size(), 4u);
  for (const CaseCheck& check : checks) EXPECT_TRUE(check.pass) << check.name;
}

TEST(GoldenCases, NoticeOneWrongIdAndSayWhere) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"model": {"vocab": {"a": 0, "b": 1}, "merges": []}})");
  folder.write("cases.json", R"([
    {"text": "a", "ids": [0], "ids_without_special": [0], "decoded": "a", "decoded_with_special": "a"},
    {"text": "b", "ids": [1], "ids_without_special": [0], "decoded": "b", "decoded_with_special": "b"}])");
  const std::vector<CaseCheck> checks = check_tokenizer_cases(folder.path());
  const auto failed = std::count_if(checks.begin(), checks.end(), [](const CaseCheck& check) { return !check.pass; });
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(checks[1].name, "ids_without_special");
  EXPECT_EQ(checks[1].error, 1);
  EXPECT_EQ(checks[2].name, "ids_without_special[1]");
}

TEST(GoldenCases, RefuseFoldersWithoutCases) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(has_tokenizer_cases(folder.path()));
  folder.write("tokenizer.json", R"({"model": {"vocab": {"a": 0}, "merges": []}})");
  folder.write("cases.json", "[]");
  EXPECT_TRUE(contains(error_text<DataError>([&] { check_tokenizer_cases(folder.path()); }), "no case"));
  folder.write("cases.json", R"([{"text": "a"}])");
  EXPECT_TRUE(contains(error_text<DataError>([&] { check_tokenizer_cases(folder.path()); }), "\"ids\""));
  folder.write("cases.json", "[");
  EXPECT_TRUE(contains(error_text<DataError>([&] { check_tokenizer_cases(folder.path()); }), "JSON"));
}

}  // namespace
}  // namespace litespark::token
