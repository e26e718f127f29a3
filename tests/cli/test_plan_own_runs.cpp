// SPDX-License-Identifier: Apache-2.0
// Forecasts beside our own measured steps on H200s: tests/golden/planner/own_runs.csv, whose last column names the file
// of bench/results/ that a step is from.
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
    run.measured_ms = std::stod(milliseconds);
    runs.push_back(run);
  }
  return runs;
}

double forecast_ms(const OwnRun& run) {
  std::istringstream words(run.arguments);
  std::vector<std::string> arguments = {"plan"};
  for (std::string word; words >> word;) arguments.push_back(word);
  arguments[1] = in_repository("configs/" + arguments[1]);
  arguments.insert(arguments.end(), {"--hardware", "h200", "--json"});
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
  const std::vector<OwnRun> runs = own_runs();
  for (const OwnRun& run : runs) sum += 100 * (forecast_ms(run) / run.measured_ms - 1);
  EXPECT_LT(std::abs(sum / static_cast<double>(runs.size())), 2);
}

}  // namespace
}  // namespace litespark
