// SPDX-License-Identifier: Apache-2.0
#include "report/prediction.h"

#include <cmath>

#include "core/text_table.h"
#include "io/file.h"
#include "io/json_file.h"
#include "report/html.h"
#include "report/json_access.h"
#include "report/number_text.h"
#include "report/run_facts.h"

namespace litespark::report {
namespace {

/// The plan's total is what was allocated; beside it stands what was measured of the rest.
std::optional<double> measured_memory(const RunFolder& run) {
  if (!run.memory || !run.memory->is_beyond_plan_measured) return std::nullopt;
  return run.memory->total_bytes + *run.memory->beyond_plan_bytes;
}

std::optional<double> measured_joules_per_token(const RunFacts& facts) {
  if (!facts.joules.is_measured() || !facts.joules.is_whole() || !facts.tokens || *facts.tokens <= 0)
    return std::nullopt;
  return facts.joules.sum / *facts.tokens;
}

struct Row {
  std::string name;
  std::optional<double> predicted;
  std::optional<double> measured;
  std::string (*text)(double) = nullptr;
};

std::string error_text(const Row& row) {
  if (!row.predicted || !row.measured || *row.measured == 0) return "";
  const double percent = 100.0 * (*row.predicted / *row.measured - 1.0);
  return (percent > 0 ? "+" : "") + number_text(percent, 3) + " %";
}

std::string bytes_of(double bytes) {
  return bytes_text(std::llround(bytes));
}
std::string rate_of(double rate) {
  return number_text(rate);
}
std::string joules_of(double joules_per_token) {
  return number_text(1000.0 * joules_per_token) + " J";
}

}  // namespace

std::optional<Prediction> read_prediction(const std::filesystem::path& path) {
  if (!is_present(path)) return std::nullopt;
  const nlohmann::json file = read_json_file(path);
  const JsonObject object(file, path.string());
  Prediction prediction{.hardware = object.text("hardware").value_or("unnamed hardware"),
                        .memory_bytes = object.real("memory_bytes")};
  if (const nlohmann::json* const step = object.find("step"))
    prediction.tokens_per_second = JsonObject(*step, path.string() + ": step").real("tokens_per_second");
  if (const nlohmann::json* const whole = object.find("run"))
    prediction.joules_per_token = JsonObject(*whole, path.string() + ": run").real("joules_per_token");
  return prediction;
}

std::string prediction_section(const RunFolder& run, const RunFacts& facts) {
  if (!run.prediction) {
    return "<p class=\"absent\">forecast.json, which the start of a run writes, is not there.</p>\n";
  }
  const Prediction& prediction = *run.prediction;
  const Row rows[] = {
      {"tokens/s, median", prediction.tokens_per_second, facts.median_tokens_per_second, rate_of},
      {"memory, with what lies beyond the plan", prediction.memory_bytes, measured_memory(run), bytes_of},
      {std::string("energy of 1,000 tokens: predicted the devices', measured all that has a sensor") +
           (facts.is_energy_estimated ? " or an estimate" : ""),
       prediction.joules_per_token, measured_joules_per_token(facts), joules_of},
  };
  std::vector<std::vector<std::string>> cells;
  for (const Row& row : rows) {
    cells.push_back({row.name, row.predicted ? row.text(*row.predicted) : "not predicted",
                     row.measured ? row.text(*row.measured) : "not measured", error_text(row)});
  }
  return "<p class=\"absent\">" +
         escape_html("Predicted for " + prediction.hardware +
                     " before the first step; the planner's usual errors are in docs/planner.md.") +
         "</p>\n<div class=\"panel\">\n" + html_table({"", "predicted", "measured", "off by"}, cells) + "</div>\n";
}

}  // namespace litespark::report
