// SPDX-License-Identifier: Apache-2.0
// `litespark selftest` on this machine, and what it says when something is not there.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

TEST(Selftest, FindsNothingWrongHereAndLeavesNothingBehind) {
  const test::TemporaryFolder folder;
  const ProgramResult result = run_litespark({"selftest", "--json"}, folder.path().string());
  ASSERT_EQ(result.exit_code, 0) << result.output << result.errors;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const nlohmann::json json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["pass"], true);
  std::map<std::string, std::string> outcomes;
  for (const auto& check : json["checks"]) outcomes[check["name"]] = check["outcome"];
  for (const char* name : {"versions", "machine", "matmul f32", "matmul bf16", "memory", "disk", "resume", "export",
                           "accumulation", "packing", "generic", "thread count"}) {
    EXPECT_EQ(outcomes[name], "pass") << name;
  }
  for (const char* name : {"avx2", "avx512", "avx512bf16", "amx", "thread scaling", "energy"}) {
    EXPECT_TRUE(outcomes.contains(name)) << name;
    EXPECT_NE(outcomes[name], "FAIL") << name;
  }
}

TEST(Selftest, ADiskThatTakesNothingIsAFailedCheckAndTheOthersStillRun) {
  const test::TemporaryFolder folder;
  folder.write("file", "");
  const ProgramResult result = run_litespark({"selftest", "--folder=file"}, folder.path().string());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.output, "disk            FAIL"));
  EXPECT_TRUE(contains(result.output, "matmul f32      pass"));
  EXPECT_TRUE(contains(result.output, "2 failed"));
}

TEST(Selftest, HelpSaysWhatTheExitCodesMean) {
  const ProgramResult result = run_litespark({"selftest", "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(contains(result.output, "8: suspect the hardware"));
  EXPECT_EQ(run_litespark({"selftest", "--device=cuda", "--nonsense"}).exit_code, 2);
}

}  // namespace
}  // namespace litespark
