// SPDX-License-Identifier: Apache-2.0
// Samples of a run: taken when due, shown and kept, without a trace in what is trained.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/small_run.h"
#include "support/error_text.h"

namespace litespark {
namespace {

/// A run long enough for a prompt, and a vocabulary that takes the golden tokenizer's ids.
std::vector<std::string> settings(const std::string& out, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--out=" + out, "--model.vocab_size=640", "--data.seq_len=48",
                           "--data.tokenizer=" + test::golden_folder("tokenizer-trained").string()});
  return more;
}

std::vector<std::string> sampled(const std::string& out, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--train.sample_every=2", "--train.sample_prompt=In <b>the</b>"});
  return settings(out, more);
}

TEST(RunSampler, ARunWithSamplesTrainsTheSameBits) {
  const SmallRun run;
  for (const char* compute : {"fp32", "bf16"}) {
    const std::string precision = std::string("--precision.compute=") + compute;
    const std::string plain = std::string("plain-") + compute;
    const std::string with = std::string("with-") + compute;
    ASSERT_EQ(run.train(settings(plain, {precision})).exit_code, 0);
    const ProgramResult result = run.train(sampled(with, {precision}));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      EXPECT_EQ(run.text(with + "/checkpoints/step-6/" + file), run.text(plain + "/checkpoints/step-6/" + file));
    }
    EXPECT_TRUE(contains(result.output, "step 4  sample \"In <b>the</b>"));
  }
}

TEST(RunSampler, SamplesAreKeptAndShownInTheReportAsText) {
  const SmallRun run;
  ASSERT_EQ(run.train(sampled("out")).exit_code, 0);
  const std::string lines = run.text("out/samples.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_TRUE(lines.starts_with("{\"step\": 2, \"prompt\": \"In <b>the</b>\", \"text\": \""));
  EXPECT_TRUE(contains(lines, "{\"step\": 6, "));
  const std::string page = run.text("out/report.html");
  EXPECT_TRUE(contains(page, "after step 6</small><b>In &lt;b&gt;the&lt;/b&gt;</b>"));
  EXPECT_EQ(page.find("<b>the</b>"), std::string::npos);
}

TEST(RunSampler, AResumedRunTakesTheSameSamplesOnce) {
  const SmallRun run;
  ASSERT_EQ(run.train(sampled("whole", {"--checkpoint.every=3"})).exit_code, 0);
  ASSERT_EQ(run.train(sampled("cut", {"--checkpoint.every=3"})).exit_code, 0);
  // As if killed between the sample of step 4 and the next save.
  std::filesystem::remove_all(run.path("cut/checkpoints/step-6"));
  ASSERT_EQ(run.train(sampled("cut", {"--checkpoint.every=3"})).exit_code, 0);
  EXPECT_EQ(run.text("cut/samples.jsonl"), run.text("whole/samples.jsonl"));
}

TEST(RunSampler, ThePlanHoldsItsMemory) {
  const SmallRun run;
  std::vector<std::string> arguments = {"plan", "small.toml", "--json"};
  const std::string plain = run_litespark(arguments, run.path("").string()).output;
  for (const std::string& setting : sampled("out")) arguments.push_back(setting);
  const std::string with = run_litespark(arguments, run.path("").string()).output;
  EXPECT_EQ(plain.find("\"decode\""), std::string::npos);
  EXPECT_TRUE(contains(with, "\"decode\""));
}

TEST(RunSampler, WhatCannotBeSampledIsRefusedByName) {
  const SmallRun run;
  const ProgramResult without = run.train({"--train.sample_every=2"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_TRUE(contains(without.errors, "data.tokenizer"));
  const ProgramResult empty = run.train({"--train.sample_every=2", "--out=out", "--model.vocab_size=640",
                                         "--data.tokenizer=" + test::golden_folder("tokenizer-qwen").string()});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_TRUE(contains(empty.errors, "train.sample_prompt"));
  const ProgramResult too_long = run.train(sampled("out", {"--train.sample_tokens=2"}));
  EXPECT_EQ(too_long.exit_code, 2);
  EXPECT_TRUE(contains(too_long.errors, "train.sample_prompt"));
  const ProgramResult small =
      run.train({"--train.sample_every=2", "--data.tokenizer=" + test::golden_folder("tokenizer-trained").string()});
  EXPECT_EQ(small.exit_code, 3);
  EXPECT_FALSE(run.exists("out/checkpoints/step-6"));
}

}  // namespace
}  // namespace litespark
