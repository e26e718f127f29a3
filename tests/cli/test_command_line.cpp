// SPDX-License-Identifier: Apache-2.0
// The program from outside: exit codes, help, and what it says about slips on the command line.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "support/error_text.h"
#include "support/run_program.h"

namespace litespark {
namespace {

constexpr const char* kConfig = LITESPARK_SOURCE_DIR "/configs/5m.toml";

std::string refused(std::vector<std::string> arguments) {
  const ProgramResult result = run_litespark(arguments);
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(result.errors.starts_with("litespark: ")) << result.errors;
  return result.errors;
}

TEST(CommandLine, HelpAndVersionExitZero) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"help"},
                                                    {"--help"},
                                                    {"-h"},
                                                    {"help", "train"},
                                                    {"train", "--help"},
                                                    {"plan", "-h"},
                                                    {"help", "config"},
                                                    {"--version"},
                                                    {"train", "--stpes", "--help"}}) {
    const ProgramResult result = run_litespark(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments.front();
    EXPECT_EQ(result.errors, "");
    EXPECT_NE(result.output, "");
  }
  EXPECT_TRUE(run_litespark({"--version"}).output.starts_with("litespark 0."));
}

TEST(CommandLine, NoCommandShowsTheHelpAndExitsTwo) {
  const ProgramResult result = run_litespark({});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(contains(result.errors, "usage: litespark COMMAND"));
}

TEST(CommandLine, EveryCommandsHelpShowsPurposeUsageAndExample) {
  const std::string help = run_litespark({"help"}).output;
  for (const char* command : {"train", "plan", "verify", "prepare", "tokenize"}) {
    EXPECT_TRUE(contains(help, std::string("  ") + command + " "));
    const std::string text = run_litespark({command, "--help"}).output;
    EXPECT_TRUE(contains(text, std::string("usage: litespark ") + command));
    const size_t example = text.find("\nexample\n");
    ASSERT_NE(example, std::string::npos) << command;
    EXPECT_TRUE(contains(text.substr(example), std::string("litespark ") + command + " "));
  }
}

TEST(CommandLine, HelpShowsUnitRangeAndDefaultOfEachKey) {
  for (const char* command : {"train", "plan"}) {
    const std::string text = run_litespark({command, "--help"}).output;
    EXPECT_TRUE(contains(text, "--train.steps  (integer, 1 or more; steps; default 400)"));
    EXPECT_TRUE(contains(text, "--optim.betas  (list of numbers, 0 to below 1; default [0.9, 0.95])"));
    EXPECT_TRUE(contains(text, "--model.rope_scaling.factor  (number, 1e-06 to 1e+15; default unset)"));
  }
}

TEST(CommandLine, AnUnknownCommandNamesTheNearest) {
  EXPECT_TRUE(contains(refused({"trian", kConfig}), "did you mean train?"));
  EXPECT_TRUE(contains(refused({"frobnicate"}), "unknown command; got frobnicate"));
  EXPECT_TRUE(contains(refused({"help", "plna"}), "did you mean plan?"));
}

TEST(CommandLine, AnUnknownOptionNamesTheNearest) {
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--jsn"}), "did you mean --json?"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--steps", "3"}), "did you mean --train.steps?"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "-j"}), "options that start with --"));
  EXPECT_TRUE(contains(refused({"verify", "x", "--train.steps=3"}), "unknown option; got --train.steps"));
}

TEST(CommandLine, UnknownKeysAreRefusedAtEveryLevel) {  // report:B45 fault:F5
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--train.stpes=3"}), "did you mean train.steps?"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--trian.steps=3"}), "did you mean train.steps?"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--sede=3"}), "did you mean --seed?"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--model.rope_scaling.facter=3"}), "model.rope_scaling.factor?"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--train.micro-batch=3"}), "did you mean train.micro_batch?"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--optim.steps=3"}), "did you mean train.steps?"));
}

TEST(CommandLine, WrongTypesAndRangesAreRefused) {  // report:B45
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--train.steps=many"}), "got \"many\", expected integer, 1 or more"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--train.steps=0"}), "out of range; got 0"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--deterministic=yes"}), "expected true or false"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--schedule.name=cosin"}), "did you mean \"cosine\"?"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--train=3"}), "is a section"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--json=maybe"}), "expected true or false"));
}

TEST(CommandLine, EveryCommandChecksItsOwnFilesKeys) {
  EXPECT_TRUE(contains(refused({"prepare", "data.toml", "--output.evl_every=3"}), "did you mean output.eval_every?"));
  EXPECT_TRUE(contains(refused({"prepare", "data.toml", "--train.steps=3"}), "unknown key; got train.steps"));
  const std::string help = run_litespark({"prepare", "--help"}).output;
  EXPECT_TRUE(contains(help, "keys of DATA.toml"));
  EXPECT_TRUE(contains(help, "--output.eval_every"));
  EXPECT_EQ(help.find("--train.steps"), std::string::npos);
}

TEST(CommandLine, OverridesAreWrittenWithAnEqualsSign) {
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--train.steps", "3"}), "expected --train.steps=value"));
}

TEST(CommandLine, SourcesThatDisagreeAreRefused) {  // fault:F5
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--train.steps=3", "--train.steps=4"}), "two values"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "--gpus", "2", "--cluster.gpus=4"}), "two values"));
}

TEST(CommandLine, PositionalsAreCounted) {
  EXPECT_TRUE(contains(refused({"plan"}), "expected RUN.toml"));
  EXPECT_TRUE(contains(refused({"plan", kConfig, "other.toml"}), "too many arguments; got \"other.toml\""));
  EXPECT_TRUE(contains(refused({"plan", "--gpus"}), "--gpus has no value"));
  EXPECT_TRUE(contains(refused({"plan", "absent.toml"}), "absent.toml"));
  EXPECT_TRUE(contains(refused({"plan", "--", "--json"}), "--json"));
}

TEST(CommandLine, OutputThatCannotBeWrittenIsAStorageError) {
  const int status = std::system(LITESPARK_BINARY_DIR "/cli/litespark help > /dev/full 2> /dev/null");
  EXPECT_EQ(WEXITSTATUS(status), 4);
}

}  // namespace
}  // namespace litespark
