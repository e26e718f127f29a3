// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/error.h"
#include "report/run_folder.h"
#include "report/sample_run.h"
#include "support/error_text.h"

namespace litespark::report {
namespace {

TEST(RunFolder, ReadsStepsAndEvaluations) {
  const SampleRun sample;
  const RunFolder run = read_run_folder(sample.path());
  ASSERT_EQ(run.steps.size(), 4U);
  EXPECT_EQ(run.steps[1].loss, 6.0);
  EXPECT_EQ(run.steps[2].loss, std::nullopt);
  EXPECT_TRUE(run.steps[2].skipped);
  EXPECT_EQ(run.steps[0].mfu, std::nullopt);
  ASSERT_EQ(run.evals.size(), 1U);
  EXPECT_EQ(run.evals[0].loss, 6.5);
  EXPECT_TRUE(contains(run.run_toml, "steps = 4"));
  EXPECT_EQ(run.name, sample.path().filename().string());
}

TEST(RunFolder, AFolderWithoutRunTomlIsNone) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(contains(error_text<DataError>([&] { read_run_folder(folder.path()); }), "is not a run folder"));
}

TEST(RunFolder, ReadsEnergySamplesAndScopes) {
  const SampleRun sample;
  sample.write("energy.jsonl",
               "{\"step\": 1, \"seconds\": 2, \"joules\": null, \"watts\": null, \"method\": \"unavailable\", "
               "\"device\": \"cpu\"}\n");
  sample.write("samples.jsonl", "{\"step\": 4, \"prompt\": \"In the\", \"text\": \" beginning\"}\n");
  sample.write(
      "timeline.json",
      "{\"sampled_steps\": 3, \"scopes\": [{\"name\": \"a\", \"seconds\": 1}, {\"name\": \"b\", \"seconds\": 2.5}], "
      "\"run\": {\"steps_seconds\": 9.0, \"data_wait_seconds\": 2.0, \"eval_seconds\": 4.0}, "
      "\"observing\": {\"share\": 0.01}}");
  const RunFolder run = read_run_folder(sample.path());
  ASSERT_EQ(run.energy.size(), 1U);
  EXPECT_EQ(run.energy[0].method, "unavailable");
  EXPECT_EQ(run.energy[0].joules, std::nullopt);
  EXPECT_EQ(run.energy[0].seconds, 2.0);
  ASSERT_EQ(run.samples.size(), 1U);
  EXPECT_EQ(run.samples[0].text, " beginning");
  ASSERT_TRUE(run.timeline);
  EXPECT_EQ(run.timeline->num_sampled_steps, 3);
  ASSERT_EQ(run.timeline->scopes.size(), 2U);
  EXPECT_EQ(run.timeline->scopes[0].name, "b");
  EXPECT_EQ(run.timeline->run.at(0).seconds, 7.0);
  EXPECT_EQ(run.timeline->run.at(2).seconds, 4.0);
  EXPECT_EQ(run.timeline->cost_share, 0.01);
}

TEST(RunFolder, WarningsAndSavesAreNoSteps) {
  const SampleRun sample;
  sample.write("metrics.jsonl", SampleRun::step(1, "8.0", "50.0") +
                                    "{\"step\": 1, \"checkpoint_seconds\": 0.5}\n"
                                    "{\"step\": 1, \"warning\": \"memory grew\"}\n" +
                                    SampleRun::step(2, "7.0", "50.0"));
  const RunFolder run = read_run_folder(sample.path());
  EXPECT_EQ(run.steps.size(), 2U);
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_EQ(run.warnings[0].text, "memory grew");
}

TEST(RunFolder, MemoryIsTheWholeRunsBytesAndTheFullestStretchs) {
  const SampleRun sample;
  sample.write("memory.json",
               "{\"model\": {\"parameters\": 1000, \"headline\": \"llama\"}, \"memory\": {\"total_bytes\": 130, "
               "\"exact\": true, \"beyond_plan\": {\"predicted_bytes\": 20, \"measured_bytes\": null}, "
               "\"owners\": {\"weights\": 50, \"batch\": 0}, \"peaks\": ["
               "{\"name\": \"forward\", \"live_bytes\": 30, \"owners\": {\"activations\": 30}}, "
               "{\"name\": \"backward\", \"live_bytes\": 75, \"owners\": {\"activations\": 70, \"weights\": 5}}]}}");
  const RunFolder run = read_run_folder(sample.path());
  ASSERT_TRUE(run.memory);
  EXPECT_EQ(run.num_parameters, 1000.0);
  EXPECT_EQ(run.model, "llama");
  EXPECT_EQ(run.memory->peak_name, "backward");
  EXPECT_EQ(run.memory->beyond_plan_bytes, 20.0);
  EXPECT_FALSE(run.memory->is_beyond_plan_measured);
  ASSERT_EQ(run.memory->owners.size(), 2U);
  EXPECT_EQ(run.memory->owners[0].owner, "activations");
  EXPECT_EQ(run.memory->owners[0].peak_bytes, 70.0);
  EXPECT_EQ(run.memory->owners[1].run_bytes, 50.0);
  EXPECT_EQ(run.memory->owners[1].peak_bytes, 5.0);
}

TEST(RunFolder, OnlyCompleteCheckpointsCount) {
  const SampleRun sample;
  for (const char* name : {"step-10", "step-9", "step-x", "step-11", "other"}) {
    std::filesystem::create_directories(sample.path() / "checkpoints" / name);
    if (std::string(name) != "step-11") sample.write(std::string("checkpoints/") + name + "/COMPLETE", "");
  }
  EXPECT_EQ(read_run_folder(sample.path()).checkpoints, (std::vector<int64_t>{9, 10}));
}

TEST(RunFolder, RefusesLinesWithoutStepAndStepsThatFall) {
  const SampleRun sample;
  const auto refused = [&](const std::string& metrics) {
    sample.write("metrics.jsonl", metrics);
    return error_text<DataError>([&] { read_run_folder(sample.path()); });
  };
  EXPECT_TRUE(contains(refused("{\"loss\": 1}\n"), "metrics.jsonl:1"));
  EXPECT_TRUE(contains(refused("{\"step\": -1}\n"), "of 0 or more"));
  EXPECT_TRUE(contains(refused("{\"step\": 2}\n{\"step\": 2}\n"), "steps must ascend"));
  EXPECT_TRUE(contains(refused("{\"step\": 1, \"loss\": \"<b>\"}\n"), "loss]"));
}

}  // namespace
}  // namespace litespark::report
