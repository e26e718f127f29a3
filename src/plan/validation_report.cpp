// SPDX-License-Identifier: Apache-2.0
#include "plan/validation_report.h"

#include <array>

#include "core/json_text.h"
#include "core/quote.h"
#include "core/text_table.h"

namespace litespark {
namespace {

constexpr std::array kGroups = {ValidationGroup::kStepTime, ValidationGroup::kMemory, ValidationGroup::kEnergy,
                                ValidationGroup::kBandwidth, ValidationGroup::kOther};

const char* fit_name(ValidationFit fit) {
  if (fit == ValidationFit::kNone) return "none";
  return fit == ValidationFit::kScalar ? "scalar" : "all";
}

void add_row(TextTable& table, const std::string& name, const std::string& group, const ErrorSummary& summary) {
  const auto percent = [&](double value) { return summary.n == 0 ? std::string("n/a") : fixed_text(value); };
  table.add({name, group, std::to_string(summary.n), std::to_string(summary.excluded),
             percent(summary.median_abs_error_percent), percent(summary.p90_abs_error_percent),
             percent(summary.max_abs_error_percent), percent(summary.signed_bias_percent),
             percent(summary.most_under_percent)});
}

/// The middle of a long name goes: its start says who, its end which table.
std::string shortened(const std::string& name) {
  constexpr size_t kLongest = 60;
  constexpr size_t kEnd = 20;
  if (name.size() <= kLongest) return name;
  return name.substr(0, kLongest - kEnd - 3) + "..." + name.substr(name.size() - kEnd);
}

std::string summary_fields(const ErrorSummary& summary) {
  const auto number = [&](double value) { return summary.n == 0 ? std::string("null") : json_number(value); };
  return "\"n\": " + std::to_string(summary.n) + ", \"excluded\": " + std::to_string(summary.excluded) +
         ", \"median_abs_error_percent\": " + number(summary.median_abs_error_percent) +
         ", \"p90_abs_error_percent\": " + number(summary.p90_abs_error_percent) +
         ", \"max_abs_error_percent\": " + number(summary.max_abs_error_percent) +
         ", \"signed_bias_percent\": " + number(summary.signed_bias_percent) +
         ", \"most_under_percent\": " + number(summary.most_under_percent);
}

std::string row_name(const ValidationRow& row) {
  return row.id.empty() ? "line " + std::to_string(row.line) : row.id;
}

std::string fit_text(const Validation& validation) {
  if (validation.fit == ValidationFit::kNone) return "fit none: data sheets, nothing fitted\n";
  std::string text = std::string("fit ") + fit_name(validation.fit) +
                     ": measured over predicted step time, the median of " +
                     (validation.fit == ValidationFit::kScalar ? "one-node rows" : "all rows") + "\n";
  if (validation.slowness.empty()) text += "  no such row: data sheets\n";
  for (const auto& [device, slowness] : validation.slowness) {
    text += "  " + plain_text(device) + "  x " + fixed_text(slowness, 3) + "\n";
  }
  return text;
}

}  // namespace

std::string validation_text(const Validation& validation) {
  std::string text;
  for (const std::string& note : validation.notes) text += "note: " + plain_text(note) + "\n";
  text += fit_text(validation);
  TextTable table({"absolute error, %", "of", "n", "excluded", "median", "p90", "max", "bias", "most under"});
  for (const auto& [source, groups] : validation.per_source()) {
    for (const auto& [group, summary] : groups) add_row(table, shortened(source), group, summary);
  }
  table.add_rule();
  for (const ValidationGroup group : kGroups) {
    const ErrorSummary summary = validation.summary(group);
    if (summary.n + summary.excluded > 0) add_row(table, "all sources", group_name(group), summary);
  }
  text += "\n" + table.to_string();
  std::string excluded;
  for (const RowPrediction& prediction : validation.predictions) {
    if (prediction.exclusion.empty()) continue;
    excluded +=
        "  " +
        plain_text(row_name(*prediction.row) + " (" + group_name(prediction.group) + "): " + prediction.exclusion) +
        "\n";
  }
  if (!excluded.empty()) text += "\nexcluded:\n" + excluded;
  return text;
}

std::string validation_json(const Validation& validation) {
  std::string text = "{\n  \"fit\": " + json_string(fit_name(validation.fit)) + ",\n  \"slowness\": {";
  const char* comma = "";
  for (const auto& [device, slowness] : validation.slowness) {
    text += comma + json_string(device) + ": " + json_number(slowness);
    comma = ", ";
  }
  text += "}";
  for (const ValidationGroup group : kGroups) {
    text += ",\n  " + json_string(group_name(group)) + ": {" + summary_fields(validation.summary(group)) + "}";
  }
  text += ",\n  \"per_source\": {";
  comma = "";
  for (const auto& [source, groups] : validation.per_source()) {
    text += std::string(comma) + "\n    " + json_string(source) + ": {" +
            summary_fields(validation.summary_of_source(source));
    for (const auto& [group, summary] : groups)
      text += ", " + json_string(group) + ": {" + summary_fields(summary) + "}";
    text += "}";
    comma = ",";
  }
  text += "\n  },\n  \"exclusions\": [";
  comma = "";
  for (const RowPrediction& prediction : validation.predictions) {
    if (prediction.exclusion.empty()) continue;
    text += std::string(comma) + "\n    {\"row\": " + json_string(row_name(*prediction.row)) +
            ", \"line\": " + std::to_string(prediction.row->line) +
            ", \"metric\": " + json_string(prediction.row->metric) +
            ", \"group\": " + json_string(group_name(prediction.group)) +
            ", \"reason\": " + json_string(prediction.exclusion) + "}";
    comma = ",";
  }
  text += "\n  ],\n  \"notes\": [";
  comma = "";
  for (const std::string& note : validation.notes) {
    text += comma + json_string(note);
    comma = ", ";
  }
  return text + "]\n}\n";
}

}  // namespace litespark
