// SPDX-License-Identifier: Apache-2.0
// What OpenMP's library says of its settings when it is loaded (OMP_DISPLAY_ENV), which is once for each start of the
// program: the last one is what the run computes with.
#include <gtest/gtest.h>

#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

class ThreadWaiting : public testing::Test {
 protected:
  /// `settings` of the environment, of which the run knows nothing else.
  ProgramResult train(const std::vector<std::string>& settings) const {
    std::vector<std::string> launcher = {
        "env", "-u", "OMP_WAIT_POLICY", "-u", "GOMP_SPINCOUNT", "OMP_DISPLAY_ENV=VERBOSE"};
    launcher.insert(launcher.end(), settings.begin(), settings.end());
    return run_.train({"--meter.peak_tflops=1", "--checkpoint.at_end=false"}, launcher);
  }

  static int num_starts(const std::string& text) {
    int count = 0;
    for (size_t at = 0; (at = text.find("OPENMP DISPLAY ENVIRONMENT BEGIN", at)) != std::string::npos; ++at) ++count;
    return count;
  }

  static std::string last_spin_count(const std::string& text) {
    const std::string opening = "GOMP_SPINCOUNT = '";
    const size_t at = text.rfind(opening);
    if (at == std::string::npos) return "unknown";
    const size_t begin = at + opening.size();
    return text.substr(begin, text.find('\'', begin) - begin);
  }

  SmallRun run_;
};

TEST_F(ThreadWaiting, IsShortUnlessTheUserWantsItOtherwise) {
  const ProgramResult result = train({});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(num_starts(result.errors), 2);
  EXPECT_EQ(last_spin_count(result.errors), "5000");
  EXPECT_TRUE(contains(run_.text("runs/small/run.toml") + result.output, "step 6/6"));
}

TEST_F(ThreadWaiting, IsWhatTheUserSays) {
  const ProgramResult passive = train({"OMP_WAIT_POLICY=passive"});
  EXPECT_EQ(num_starts(passive.errors), 1);
  EXPECT_EQ(last_spin_count(passive.errors), "0");
  const ProgramResult counted = train({"GOMP_SPINCOUNT=77"});
  EXPECT_EQ(num_starts(counted.errors), 1);
  EXPECT_EQ(last_spin_count(counted.errors), "77");
}

TEST_F(ThreadWaiting, KeepsTheWordsThatWereTyped) {
  ASSERT_EQ(train({}).exit_code, 0);
  const std::string manifest = run_.text("out/manifest.json") + run_.text("runs/small/manifest.json");
  EXPECT_TRUE(contains(manifest, "--checkpoint.at_end=false"));
}

}  // namespace
}  // namespace litespark
