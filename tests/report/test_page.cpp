// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "report/page.h"
#include "report/sample_run.h"
#include "support/error_text.h"

namespace litespark::report {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Page, ChartsWhatWasMeasuredAndSaysWhatWasNot) {  // fault:F1
  const SampleRun sample;
  const std::string page = test::file_text(write_report(sample.path()));
  EXPECT_EQ(count(page, "<svg class=\"chart\""), 5U);
  EXPECT_TRUE(contains(page, "<figcaption>Model FLOPs utilisation</figcaption><p>not measured</p>"));
  EXPECT_TRUE(contains(page, "data-name=\"evaluation\" data-xs=\"2\" data-ys=\"6.5\""));
  EXPECT_TRUE(contains(page, "<span>last loss</span><b>4</b>"));
  EXPECT_TRUE(contains(page, "<span>tokens/s, median</span><b>250</b>"));
  EXPECT_TRUE(contains(page, "<span>energy</span><b>240 J</b>"));
  EXPECT_TRUE(contains(page, "<span>carbon (CO2e)</span><b class=\"absent\">not measured</b>"));
  EXPECT_TRUE(contains(page, "<span>skipped steps</span><b>1</b>"));
  EXPECT_TRUE(contains(page, "<td>energy per 1,000 tokens</td><td>60 J</td>"));
  EXPECT_TRUE(contains(page, "Time by scope was not recorded."));
}

TEST(Page, ARunBeforeItsFirstStepHasNoCharts) {
  const std::string page = report_page({.name = "new", .run_toml = "seed = 1\n"});
  EXPECT_EQ(count(page, "<svg class=\"chart\""), 0U);
  EXPECT_EQ(count(page, "<p>not measured</p>"), 6U);
  EXPECT_TRUE(contains(page, "Energy and carbon were not measured."));
}

TEST(Page, HostileTextStaysText) {
  const std::string hostile = "</pre></title></style><script>alert(1)</script><img src=x onerror=\"x\">'";
  RunFolder run{.name = hostile, .run_toml = hostile, .model = hostile};
  run.steps = {{.step = 1, .loss = 2.0}};
  run.energy = {{.device = hostile, .method = hostile, .seconds = 1.0, .joules = 1.0}};
  run.memory = MemoryFacts{.owners = {{.owner = hostile, .run_bytes = 4.0}}, .total_bytes = 5.0, .peak_name = hostile};
  run.timeline = TimelineFacts{.scopes = {{.name = hostile, .seconds = 1.0}}};
  run.warnings = {{.step = 1, .text = hostile}};
  run.samples = {{.step = 1, .prompt = hostile, .text = hostile}};
  const std::string page = report_page(run);
  EXPECT_EQ(count(page, "<script>"), 1U);  // the page's own
  EXPECT_EQ(count(page, "<img"), 0U);
  EXPECT_EQ(count(page, "</style>"), 1U);
  EXPECT_EQ(count(page, "&lt;script&gt;alert(1)&lt;/script&gt;"), 12U);
}

TEST(Page, NamesNothingThatABrowserWouldLoad) {
  const SampleRun sample;
  const std::string page = report_page(read_run_folder(sample.path()));
  for (const char* loading : {"http:", "https:", "//", " src=", " href=", "url(", "@import", "fetch("}) {
    EXPECT_EQ(page.find(loading), std::string::npos) << loading;
  }
  EXPECT_TRUE(contains(page, "default-src 'none'"));
  EXPECT_TRUE(contains(page, "prefers-color-scheme: dark"));
}

TEST(Page, LinesOfTheEnergyLogThatACrashToreAreCounted) {  // fault:F3
  const SampleRun sample;
  const std::string line = "{\"seconds\": 2.0, \"joules\": 80.0, \"method\": \"estimated\", \"device\": \"cpu\"}\n";
  sample.write("energy.jsonl", line + "{\"seconds\": 2.\n" + line);
  const std::string page = test::file_text(write_report(sample.path()));
  EXPECT_TRUE(contains(page, "Unreadable lines of energy.jsonl, left out: 1."));
  EXPECT_TRUE(contains(page, "<td>cpu</td><td>estimated</td><td>2</td><td>4 s</td><td>160 J</td><td>40 W</td>"));
}

TEST(Page, ASumOfSomeStepsSaysHowMany) {
  RunFolder run{.name = "r"};
  run.steps = {{.step = 1, .joules = 5.0}, {.step = 2}};
  EXPECT_TRUE(contains(report_page(run), "<b>5 J (1 of 2)</b>"));
}

}  // namespace
}  // namespace litespark::report
