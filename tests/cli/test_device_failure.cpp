// SPDX-License-Identifier: Apache-2.0
// Whole runs on a device that fails: exit 8, a message that helps, and a last checkpoint that continues bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>

#include "small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

struct DeviceFailure : testing::Test {
  SmallRun small;

  /// A run of six steps that saves every second one, on the program with the faulty device. With a peak named, no op
  /// runs for the meter before the first step.
  ProgramResult train_on_faulty(const std::string& fault, const std::string& out, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--out=" + out, "--checkpoint.every=2", "--meter.peak_tflops=1"});
    setenv("LITESPARK_TEST_FAULT", fault.c_str(), 1);
    RunningLitespark program(small.train_arguments(more), small.path("").string(), {}, {},
                             "tests/cli/litespark_faulty");
    return program.wait();
  }
  void expect_resumes_to_the_same_bits(const std::string& out) {
    if (!small.exists("whole")) {
      EXPECT_EQ(small.train({"--out=whole", "--checkpoint.every=2"}).exit_code, 0);
    }
    const ProgramResult resumed = small.train({"--out=" + out, "--checkpoint.every=2"});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
    for (const char* file : {"/checkpoints/step-6/model.safetensors", "/checkpoints/step-6/optimizer.safetensors"}) {
      EXPECT_FALSE(small.text("whole" + std::string(file)).empty());
      EXPECT_TRUE(small.text(out + file) == small.text("whole" + std::string(file))) << out << file;
    }
  }
};

TEST_F(DeviceFailure, ADeviceThatOnlyRunsBehindGivesTheSameRun) {
  const ProgramResult result = train_on_faulty("", "behind");
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  expect_resumes_to_the_same_bits("behind");
}

TEST_F(DeviceFailure, AnOpThatIsRefusedEndsTheRunWithExit8AndTheLastCheckpointContinues) {  // fault:B15
  for (const int at : {100, 150, 200}) {
    const std::string out = "refused" + std::to_string(at);
    const ProgramResult result = train_on_faulty("refuse=" + std::to_string(at), out);
    EXPECT_EQ(result.exit_code, 8) << result.errors;
    EXPECT_TRUE(contains(result.errors, " of ")) << result.errors;
    EXPECT_TRUE(contains(result.errors, "planted: the op was refused"));
    EXPECT_FALSE(small.exists(out + "/checkpoints/step-6"));
    expect_resumes_to_the_same_bits(out);
  }
}

TEST_F(DeviceFailure, AnErrorThatShowsLateEndsTheRunWithExit8AndTheLastCheckpointContinues) {  // fault:B15
  for (const int at : {100, 150, 200}) {
    const std::string out = "late" + std::to_string(at);
    const ProgramResult result = train_on_faulty("late=" + std::to_string(at), out);
    EXPECT_EQ(result.exit_code, 8) << result.errors;
    EXPECT_TRUE(contains(result.errors, "issued last")) << result.errors;
    EXPECT_TRUE(contains(result.errors, "device.debug_sync"));
    expect_resumes_to_the_same_bits(out);
  }
}

TEST_F(DeviceFailure, DebugSyncNamesTheOp) {
  const ProgramResult result = train_on_faulty("late=150", "named", {"--device.debug_sync=true"});
  EXPECT_EQ(result.exit_code, 8);
  EXPECT_FALSE(contains(result.errors, "may have failed")) << result.errors;
  EXPECT_TRUE(contains(result.errors, "[synchronize] planted")) << result.errors;
}

TEST_F(DeviceFailure, ADeviceThatMultipliesWronglyIsRefusedBeforeTheFirstStep) {  // fault:C4
  const ProgramResult result = train_on_faulty("flip=0,only=matmul_forward", "wrong");
  EXPECT_EQ(result.exit_code, 8) << result.errors;
  EXPECT_TRUE(contains(result.errors, "[self-test]")) << result.errors;
  EXPECT_FALSE(small.exists("wrong/metrics.jsonl"));
}

TEST_F(DeviceFailure, ASilentErrorInACheckedStepEndsTheRunBeforeTheUpdate) {  // fault:C4
  // The second run of the third step's micro-batch.
  const ProgramResult result = train_on_faulty("flip=5,only=embedding_backward", "silent", {"--device.verify_every=1"});
  EXPECT_EQ(result.exit_code, 8) << result.errors;
  EXPECT_TRUE(contains(result.errors, "[device.verify_every] step 3")) << result.errors;
  EXPECT_TRUE(contains(result.errors, "first that of embedding")) << result.errors;
  expect_resumes_to_the_same_bits("silent");
}

TEST_F(DeviceFailure, ChecksForSilentErrorsNeedADeterministicRun) {
  const ProgramResult result = small.train({"--device.verify_every=10", "--deterministic=false"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "device.verify_every")) << result.errors;
}

}  // namespace
}  // namespace litespark
