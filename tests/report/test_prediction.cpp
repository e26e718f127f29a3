// SPDX-License-Identifier: Apache-2.0
// The planner's figures stand beside those of the run, and a figure that is missing on either side says so.
#include <gtest/gtest.h>

#include "core/error.h"
#include "report/page.h"
#include "report/prediction.h"
#include "report/run_facts.h"
#include "report/sample_run.h"
#include "support/error_text.h"

namespace litespark::report {
namespace {

constexpr const char* kForecast =
    "{\"hardware\": \"CPU <b>\", \"step\": {\"total_seconds\": 5.0, \"tokens_per_second\": 200}, "
    "\"memory_bytes\": 2147483648, \"run\": {\"joules_per_token\": 0.09}}";

std::string section_of(const SampleRun& sample) {
  const RunFolder run = read_run_folder(sample.path());
  return prediction_section(run, run_facts(run));
}

// The sample's four steps of 1,000 tokens each took 240 J at a median rate of 250 tokens/s.
TEST(Prediction, StandsBesideWhatWasMeasuredWithItsError) {
  const SampleRun sample;
  sample.write("forecast.json", kForecast);
  sample.write("memory.json",
               "{\"memory\": {\"total_bytes\": 1073741824, \"beyond_plan\": {\"measured_bytes\": 536870912}}}");
  const std::string section = section_of(sample);
  EXPECT_TRUE(contains(section, "Predicted for CPU &lt;b&gt;"));
  EXPECT_TRUE(contains(section, "<td>tokens/s, median</td><td>200</td><td>250</td><td>-20 %</td>")) << section;
  EXPECT_TRUE(contains(section, "<td>2.00 GiB</td><td>1.50 GiB</td><td>+33.3 %</td>")) << section;
  EXPECT_TRUE(contains(section, "<td>90 J</td><td>60 J</td><td>+50 %</td>")) << section;
}

TEST(Prediction, WhatIsMissingOnEitherSideSaysSo) {
  const SampleRun sample;
  EXPECT_TRUE(contains(section_of(sample), "forecast.json, which the start of a run writes, is not there."));
  sample.write("forecast.json", "{\"step\": {\"tokens_per_second\": 200}}");
  sample.write("metrics.jsonl", "");
  const std::string section = section_of(sample);
  EXPECT_TRUE(contains(section, "<td>tokens/s, median</td><td>200</td><td>not measured</td><td></td>")) << section;
  EXPECT_TRUE(contains(section, "<td>not predicted</td><td>not measured</td><td></td>")) << section;
}

TEST(Prediction, AMalformedFieldIsNamed) {
  const SampleRun sample;
  sample.write("forecast.json", "{\"step\": {\"tokens_per_second\": \"soon\"}}");
  try {
    (void)read_prediction(sample.path() / "forecast.json");
    FAIL() << "read";
  } catch (const DataError& error) {
    EXPECT_TRUE(contains(error.what(), "tokens_per_second")) << error.what();
  }
}

TEST(Prediction, IsASectionOfThePage) {
  const SampleRun sample;
  sample.write("forecast.json", kForecast);
  EXPECT_TRUE(contains(report_page(read_run_folder(sample.path())), "<h2>Predicted beside measured</h2>"));
}

}  // namespace
}  // namespace litespark::report
