// SPDX-License-Identifier: Apache-2.0
// `litespark verify` on PyTorch's numbers: passes on the real ones, exits 1 on a falsified one, 2 and 3 on what it
// cannot judge.
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

constexpr const char* kCase = LITESPARK_SOURCE_DIR "/tests/golden/llama-gqa";

/// A copy of a case whose case.json is changed.
struct FalsifiedCase {
  FalsifiedCase(const std::string& from, const std::string& to) {
    std::filesystem::copy(kCase, folder.path(), std::filesystem::copy_options::recursive);
    std::string text = test::file_text(folder.path() / "case.json");
    const size_t place = text.find(from);
    if (place == std::string::npos) throw std::runtime_error("the case does not say " + from);
    folder.write("case.json", text.replace(place, from.size(), to));
  }

  test::TemporaryFolder folder;
  std::string path = folder.path().string();
};

TEST(Verify, PyTorchsNumbersPassOnEveryCase) {
  for (const auto& entry : std::filesystem::directory_iterator(LITESPARK_SOURCE_DIR "/tests/golden")) {
    if (!std::filesystem::exists(entry.path() / "case.json")) continue;
    const ProgramResult result = run_litespark({"verify", entry.path().string(), "--device", "cpu"});
    EXPECT_EQ(result.exit_code, 0) << entry.path() << "\n" << result.output << result.errors;
    EXPECT_TRUE(contains(result.output, "all within their limits"));
  }
}

TEST(Verify, JsonHasKindPassAndChecks) {
  const ProgramResult result = run_litespark({"verify", kCase, "--json", "--device=cpu"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.output.starts_with("{\"kind\": \"causal-lm\", \"pass\": true, \"checks\": ["));
  EXPECT_TRUE(contains(result.output, "{\"name\": \"logits\", \"error\": "));
}

TEST(Verify, AFalsifiedLossFailsWithExitOne) {
  const FalsifiedCase falsified("5.688220500946045", "5.689");
  const ProgramResult result = run_litespark({"verify", falsified.path, "--device", "cpu"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.output, "FAIL"));
  EXPECT_TRUE(contains(result.output, "1 past their limits"));
  EXPECT_TRUE(contains(run_litespark({"verify", falsified.path, "--json"}).output, "\"pass\": false"));
}

TEST(Verify, OtherKindsAreRefused) {
  const FalsifiedCase falsified("causal-lm", "dream");
  const ProgramResult result = run_litespark({"verify", falsified.path});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "dream"));
}

TEST(Verify, WhatIsWrongInAFileIsNamedWithItsFolder) {
  const FalsifiedCase falsified("\"losses\"", "\"loses\"");
  const ProgramResult result = run_litespark({"verify", falsified.path});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(contains(result.errors, "[" + falsified.path + "/case.json: losses]")) << result.errors;
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"model": {"vocab": {"a": 0}, "merges": [["a", "b"]]}})");
  folder.write("cases.json", "[5]");
  const ProgramResult merges = run_litespark({"verify", folder.path().string()});
  EXPECT_EQ(merges.exit_code, 3);
  EXPECT_TRUE(contains(merges.errors, folder.path().string() + "/tokenizer.json]")) << merges.errors;
  folder.write("tokenizer.json", R"({"model": {"vocab": {"a": 0}, "merges": []}})");
  EXPECT_TRUE(
      contains(run_litespark({"verify", folder.path().string()}).errors, folder.path().string() + "/cases.json"));
}

TEST(Verify, AMissingFolderIsRefused) {
  EXPECT_NE(run_litespark({"verify", "absent"}).exit_code, 0);
}

}  // namespace
}  // namespace litespark
