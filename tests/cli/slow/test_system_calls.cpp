// SPDX-License-Identifier: Apache-2.0
// The operating system refuses one call of a run that saves after every step: the n-th write, fsync or rename, for each
// n. The run ends with the code for storage, or without a trace of a mere interruption; started again,
// it ends in the same bits as the run that nothing befell.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/small_run.h"
#include "support/error_text.h"
#include "support/slow_loops.h"

namespace litespark {
namespace {

const std::vector<std::string> kSettings = {"--checkpoint.every=1", "--meter.peak_tflops=1", "--train.log_every=1"};
constexpr const char* kLast = "/checkpoints/step-6/model.safetensors";

class SystemCalls : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(train("whole", {}).exit_code, 0);
    expected_ = run_.text(std::string("whole") + kLast);
    ASSERT_FALSE(expected_.empty());
  }

  ProgramResult train(const std::string& out, const std::vector<std::string>& launcher) const {
    std::vector<std::string> settings = kSettings;
    settings.push_back("--out=" + out);
    return run_.train(settings, launcher);
  }

  /// strace that fails every call whose number is one of first, first + step, ... `log` receives what it injected.
  std::vector<std::string> failing(const std::string& call, const std::string& error, int number) const {
    return {"strace",
            "-f",
            "-qq",
            "-o",
            run_.path("trace").string(),
            "-e",
            "trace=" + call,
            "-e",
            "inject=" + call + ":error=" + error + ":when=" + std::to_string(number)};
  }

  /// Fails the call of each number until there is none with that number; returns how many were failed.
  int fail_each(const std::string& call, const std::string& error, bool is_mere_interruption) {
    const int stride = test::slow_loops(7, 1);
    int injected = 0;
    for (int number = 1;; number += stride) {
      std::filesystem::remove_all(run_.path("out"));
      const ProgramResult hit = train("out", failing(call, error, number));
      const bool is_done = run_.text("trace").find("(INJECTED)") == std::string::npos;
      const std::string where = call + " " + error + " " + std::to_string(number) + ": " + hit.errors;
      if (is_done) {
        EXPECT_EQ(hit.exit_code, 0) << where;
        return injected;
      }
      ++injected;
      const bool is_expected = hit.exit_code == 0 || (hit.exit_code == 4 && !is_mere_interruption);
      EXPECT_TRUE(is_expected) << hit.exit_code << " " << where;
      EXPECT_TRUE(hit.exit_code == 0 || contains(hit.errors, "litespark: [")) << where;
      const ProgramResult again = train("out", {});
      EXPECT_EQ(again.exit_code, 0) << where << again.errors;
      EXPECT_EQ(run_.text(std::string("out") + kLast), expected_) << where;
      if (HasFailure()) return injected;
    }
  }

  SmallRun run_;
  std::string expected_;
};

TEST_F(SystemCalls, AFullDiskAtAnyWriteCostsNothingThatWasSaved) {  // fault:A3
  EXPECT_GT(fail_each("write", "ENOSPC", false), test::slow_loops(8, 60));
}

TEST_F(SystemCalls, AnErrorOfAnyWriteFsyncOrRenameCostsNothingThatWasSaved) {  // fault:A5
  EXPECT_GT(fail_each("write", "EIO", false), test::slow_loops(8, 60));
  EXPECT_GT(fail_each("fsync", "EIO", false), test::slow_loops(8, 60));
  EXPECT_GT(fail_each("rename", "EIO", false), test::slow_loops(5, 35));
}

TEST_F(SystemCalls, ADiskWithoutRoomIsRefusedBeforeTheFirstStep) {  // fault:A4
  const ProgramResult result = train("out", {"env", "LD_PRELOAD=" LITESPARK_FAULTY_LIBC, "LITESPARK_FREE_BYTES=65536"});
  EXPECT_EQ(result.exit_code, 4) << result.errors;
  EXPECT_TRUE(contains(result.errors, "not enough space for the next checkpoint; got 65536 bytes free"));
  EXPECT_FALSE(run_.exists("out/metrics.jsonl"));
}

TEST_F(SystemCalls, AnInterruptedCallIsTakenUpAgain) {  // fault:A5
  EXPECT_GT(fail_each("write", "EINTR", true), test::slow_loops(8, 60));
  EXPECT_GT(fail_each("fsync", "EINTR", true), test::slow_loops(8, 60));
  EXPECT_GT(fail_each("rename", "EINTR", true), test::slow_loops(5, 35));
}

}  // namespace
}  // namespace litespark
