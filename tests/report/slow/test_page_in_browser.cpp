// SPDX-License-Identifier: Apache-2.0
// The report as headless Chromium sees it: the charts are there, the tooltip works, nothing is loaded, nothing
// complains. Without chromium the test fails: tools/install.sh brings it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "report/page.h"
#include "report/sample_run.h"
#include "support/error_text.h"

namespace litespark::report {
namespace {

struct Visit {
  int exit_status = -1;
  std::string document;  ///< after scripts have run
  std::string console;   ///< what the page said or the browser said of it
};

/// Lines of the browser's log that are a page's console messages.
std::string console_lines(const std::string& log) {
  std::string out;
  for (size_t start = 0; start < log.size();) {
    const size_t end = std::min(log.find('\n', start), log.size());
    const std::string line = log.substr(start, end - start);
    if (line.find("CONSOLE") != std::string::npos) out += line + "\n";
    start = end + 1;
  }
  return out;
}

Visit visit(const std::string& page) {
  const test::TemporaryFolder folder;
  const std::string place = folder.path().string();
  folder.write("page.html", page);
  const std::string command =
      "chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking "
      "--disable-component-update --no-first-run --enable-logging=stderr --user-data-dir=" +
      place + "/profile --dump-dom file://" + place + "/page.html >" + place + "/dom 2>" + place + "/log </dev/null";
  const int status = std::system(command.c_str());
  return {.exit_status = status,
          .document = test::file_text(folder.path() / "dom"),
          .console = console_lines(test::file_text(folder.path() / "log"))};
}

/// Moves the pointer over the first chart, then writes down what happened where --dump-dom shows it.
std::string with_probe(std::string page) {
  const std::string probe =
      "<script>const chart = document.querySelector('svg.chart'), place = chart.getBoundingClientRect();"
      "chart.dispatchEvent(new PointerEvent('pointermove', {clientX: place.right - 20, clientY: place.top + 60}));"
      "document.body.dataset.tip = document.querySelector('.tip').textContent;"
      "document.body.dataset.drawn = [...document.querySelectorAll('.series path')]"
      ".filter(path => path.getTotalLength() > 100).length;"
      "document.body.dataset.wide = document.documentElement.scrollWidth > innerWidth;"
      "document.body.dataset.loaded = performance.getEntriesByType('resource').length;</script>";
  return page.insert(page.rfind("</body>"), probe);
}

TEST(PageInBrowser, DrawsItsChartsShowsATooltipAndLoadsNothing) {
  const SampleRun sample;
  const Visit seen = visit(with_probe(report_page(read_run_folder(sample.path()))));
  ASSERT_EQ(seen.exit_status, 0) << "is chromium installed?";
  EXPECT_EQ(seen.console, "");
  EXPECT_TRUE(contains(seen.document, "data-loaded=\"0\""));
  EXPECT_TRUE(contains(seen.document, "data-tip=\"step 4\ntraining 4\""));
  EXPECT_TRUE(contains(seen.document, "data-drawn=\"5\""));
  EXPECT_TRUE(contains(seen.document, "data-wide=\"false\""));
}

TEST(PageInBrowser, HostileNamesRunNothing) {
  RunFolder run{.name = "</title><script>document.title='taken'</script>",
                .run_toml = "</pre><img src=x onerror=alert(1)>"};
  run.steps = {{.step = 1, .loss = 2.0}, {.step = 2, .loss = 1.0}};
  const Visit seen = visit(with_probe(report_page(run)));
  ASSERT_EQ(seen.exit_status, 0) << "is chromium installed?";
  EXPECT_EQ(seen.console, "");
  EXPECT_EQ(seen.document.find("<title>taken"), std::string::npos);
  EXPECT_TRUE(contains(seen.document, "data-loaded=\"0\""));
}

/// The two tests above could not fail if a request of the page went unseen.
TEST(PageInBrowser, ARequestIsRefusedByThePagesPolicyAndSeenInItsConsole) {
  std::string page = report_page({.name = "r"});
  page.insert(page.rfind("</main>"), "<img src=\"http://127.0.0.1:9/x.png\">");
  const Visit seen = visit(page);
  ASSERT_EQ(seen.exit_status, 0) << "is chromium installed?";
  EXPECT_TRUE(contains(seen.console, "Content Security Policy"));
}

}  // namespace
}  // namespace litespark::report
