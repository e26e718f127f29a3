// SPDX-License-Identifier: Apache-2.0
// `litespark monitor` beside a run that goes on, and of the devices alone.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

ProgramResult monitor(const SmallRun& run, std::vector<std::string> more) {
  more.insert(more.begin(), "monitor");
  return run_litespark(more, run.path("").string());
}

TEST(Monitor, SeesARunThatGoesOn) {
  const SmallRun run;
  const auto training = run.start("out", {"--train.steps=100000000"});
  const ProgramResult lines = monitor(run, {"out", "--once"});
  ASSERT_EQ(lines.exit_code, 0) << lines.errors;
  EXPECT_TRUE(contains(lines.output, "out: step "));
  EXPECT_TRUE(contains(lines.output, "/100000000 ("));
  EXPECT_TRUE(contains(lines.output, "\nhost:"));
  EXPECT_EQ(lines.output.find('\x1b'), std::string::npos);  // no terminal, no control codes
  const ProgramResult object = monitor(run, {"out", "--once", "--json"});
  const nlohmann::json json = nlohmann::json::parse(object.output);
  EXPECT_GT(json["run"]["step"], 0);
  EXPECT_EQ(json["run"]["steps"], 100000000);
  EXPECT_GT(json["host"]["memory_bytes"], 0);
  training->send(SIGTERM);
  EXPECT_EQ(training->wait().exit_code, 5);
}

TEST(Monitor, SeesTheDevicesWithoutARun) {
  const SmallRun run;
  const ProgramResult object = monitor(run, {"--device", "--once", "--json"});
  ASSERT_EQ(object.exit_code, 0) << object.errors;
  const nlohmann::json json = nlohmann::json::parse(object.output);
  EXPECT_TRUE(json["run"].is_null());
  EXPECT_FALSE(json["host"]["power"].empty());
}

TEST(Monitor, LooksUntilItIsTold) {
  const SmallRun run;
  ASSERT_EQ(run.train({"--out=out"}).exit_code, 0);
  RunningLitespark watching({"monitor", "out", "--interval=0.1"}, run.path("").string());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  watching.send(SIGTERM);
  const ProgramResult result = watching.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_NE(result.output.find("out: step 6/6"), result.output.rfind("out: step 6/6"));
}

TEST(Monitor, WantsOneThingToWatch) {
  const SmallRun run;
  EXPECT_EQ(monitor(run, {"--once"}).exit_code, 2);
  EXPECT_EQ(monitor(run, {"out", "--device", "--once"}).exit_code, 2);
  const ProgramResult none = monitor(run, {"absent", "--once"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_TRUE(contains(none.errors, "is not a run folder"));
}

}  // namespace
}  // namespace litespark
