// SPDX-License-Identifier: Apache-2.0
// Forecasts beside our own measured steps on H200s: tests/golden/planner/own_runs.csv, whose fourth column names the
// file of bench/results/ that a step is from. The fifth says of steps that were measured with an older kernel of
// attention's gradient what its rate was over today's; they are forecast on hardware that is slower there, and no
// average is taken over them, since SwiGLU was not inside products then either.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "support/run_program.h"
#include "support/temporary_folder.h"

namespace litespark {
namespace {

struct OwnRun {
  std::string name;
  std::string arguments;
  double measured_ms = 0;
  std::string measured_in;
  double attention_gradient = 1;  ///< rate of the kernel of then over today's

  bool is_of_today() const { return attention_gradient == 1; }
};

std::string in_repository(const std::string& path) {
  return std::string(LITESPARK_SOURCE_DIR) + "/" + path;
}

std::vector<OwnRun> own_runs() {
  std::istringstream file(test::file_text(in_repository("tests/golden/planner/own_runs.csv")));
  std::vector<OwnRun> runs;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    OwnRun run;
    std::string milliseconds;
    std::getline(cells, run.name, ',');
    std::getline(cells, run.arguments, ',');
    std::getline(cells, milliseconds, ',');
    std::getline(cells, run.measured_in, ',');
    std::string rate;
    if (std::getline(cells, rate, ',')) run.attention_gradient = std::stod(rate);
    run.measured_ms = std::stod(milliseconds);
    runs.push_back(run);
  }
  return runs;
}

/// configs/hardware/h200.toml with attention's gradient at `rate` of what it says.
std::string slower_h200(const test::TemporaryFolder& folder, double rate) {
  std::string text = test::file_text(in_repository("configs/hardware/h200.toml"));
  const std::string key = "vendor_backward = ";
  const size_t at = text.find(key) + key.size();
  const size_t end = text.find('\n', at);
  const double share = std::stod(text.substr(at, end - at));
  text.replace(at, end - at, std::to_string(rate * share));
  return folder.write("h200.toml", text).string();
}

double forecast_ms(const OwnRun& run) {
  const test::TemporaryFolder folder;
  std::istringstream words(run.arguments);
  std::vector<std::string> arguments = {"plan"};
  for (std::string word; words >> word;) arguments.push_back(word);
  arguments[1] = in_repository("configs/" + arguments[1]);
  const std::string hardware = run.is_of_today() ? "h200" : slower_h200(folder, run.attention_gradient);
  arguments.insert(arguments.end(), {"--hardware", hardware, "--json"});
  const ProgramResult result = run_litespark(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const std::string key = "\"total_seconds\": ";
  return 1e3 * std::stod(result.output.substr(result.output.find(key) + key.size()));
}

TEST(PlanOwnRuns, EveryStepIsForecastWithinFivePercent) {
  const std::vector<OwnRun> runs = own_runs();
  ASSERT_GE(runs.size(), 14u);
  for (const OwnRun& run : runs) {
    const double error = 100 * (forecast_ms(run) / run.measured_ms - 1);
    EXPECT_LT(std::abs(error), 5) << run.name;
    EXPECT_TRUE(std::filesystem::exists(in_repository("bench/results/" + run.measured_in))) << run.measured_in;
  }
}

TEST(PlanOwnRuns, ErrorsLieOnBothSides) {
  double sum = 0;
  int count = 0;
  for (const OwnRun& run : own_runs()) {
    if (!run.is_of_today()) continue;
    sum += 100 * (forecast_ms(run) / run.measured_ms - 1);
    ++count;
  }
  ASSERT_GE(count, 4);
  EXPECT_LT(std::abs(sum / count), 2);
}

}  // namespace
}  // namespace litespark
