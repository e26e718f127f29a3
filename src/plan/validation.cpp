// SPDX-License-Identifier: Apache-2.0
#include "plan/validation.h"

#include <algorithm>
#include <cmath>

#include "plan/row_prediction.h"
#include "plan/row_text.h"

namespace litespark {
namespace {

ErrorSummary summary_of(const std::vector<const RowPrediction*>& predictions) {
  ErrorSummary out;
  std::vector<double> sizes;
  double sum = 0;
  for (const RowPrediction* prediction : predictions) {
    if (!prediction->exclusion.empty()) {
      ++out.excluded;
      continue;
    }
    const double error = prediction->error_percent();
    sizes.push_back(std::abs(error));
    sum += error;
    out.most_under_percent = std::min(out.most_under_percent, error);
  }
  out.n = static_cast<int64_t>(sizes.size());
  if (sizes.empty()) return out;
  out.median_abs_error_percent = quantile(sizes, 0.5);
  out.p90_abs_error_percent = quantile(sizes, 0.9);
  out.max_abs_error_percent = quantile(sizes, 1);
  out.signed_bias_percent = sum / static_cast<double>(sizes.size());
  return out;
}

}  // namespace

double quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

std::string group_name(ValidationGroup group) {
  switch (group) {
    case ValidationGroup::kStepTime: return "step_time";
    case ValidationGroup::kMemory: return "memory";
    case ValidationGroup::kEnergy: return "energy";
    case ValidationGroup::kBandwidth: return "bandwidth";
    default: return "other";
  }
}

ValidationGroup group_of(const ValidationRow& row) {
  const std::string metric = lower_text(row.metric);
  if (contains_any_text(metric, {"mem", "_gib"})) return ValidationGroup::kMemory;
  if (contains_any_text(metric, {"busbw", "algbw", "bandwidth"})) return ValidationGroup::kBandwidth;
  if (contains_any_text(metric, {"energy", "emission", "gpu_hours", "power", "carbon", "co2"})) {
    return ValidationGroup::kEnergy;
  }
  if (contains_any_text(metric, {"mfu", "hfu", "layer"})) return ValidationGroup::kOther;
  if (contains_any_text(metric, {"iteration", "step_time", "time_per_step", "token", "tflop", "samples"})) {
    return ValidationGroup::kStepTime;
  }
  return ValidationGroup::kOther;
}

SlownessByDevice fit_slowness(const ValidationFile& file, bool all_rows) {
  std::map<std::string, std::vector<double>> ratios;
  for (const ValidationRow& row : file.rows) {
    if (group_of(row) != ValidationGroup::kStepTime) continue;
    const RowPrediction prediction = predict_row(row, file, {});
    if (!prediction.exclusion.empty() || (!all_rows && !prediction.is_one_node)) continue;
    const double ratio = *row.value / prediction.predicted;
    ratios[prediction.device].push_back(prediction.is_time ? ratio : 1 / ratio);
  }
  SlownessByDevice out;
  for (const auto& [device, values] : ratios) out[device] = quantile(values, 0.5);
  return out;
}

Validation validate(const ValidationFile& file, ValidationFit fit, const ValidationFile* fit_from) {
  Validation out;
  out.fit = fit;
  out.notes = file.notes;
  if (fit != ValidationFit::kNone) {
    out.slowness = fit_slowness(fit_from == nullptr ? file : *fit_from, fit == ValidationFit::kAll);
  }
  for (const ValidationRow& row : file.rows) out.predictions.push_back(predict_row(row, file, out.slowness));
  return out;
}

ErrorSummary Validation::summary(ValidationGroup group) const {
  std::vector<const RowPrediction*> of_group;
  for (const RowPrediction& prediction : predictions) {
    if (prediction.group == group) of_group.push_back(&prediction);
  }
  return summary_of(of_group);
}

ErrorSummary Validation::summary_of_source(const std::string& source) const {
  std::vector<const RowPrediction*> of_source;
  for (const RowPrediction& prediction : predictions) {
    if (prediction.row->source == source) of_source.push_back(&prediction);
  }
  return summary_of(of_source);
}

std::map<std::string, std::map<std::string, ErrorSummary>> Validation::per_source() const {
  std::map<std::string, std::map<std::string, std::vector<const RowPrediction*>>> grouped;
  for (const RowPrediction& prediction : predictions) {
    grouped[prediction.row->source][group_name(prediction.group)].push_back(&prediction);
  }
  std::map<std::string, std::map<std::string, ErrorSummary>> out;
  for (const auto& [source, groups] : grouped) {
    for (const auto& [group, list] : groups) out[source][group] = summary_of(list);
  }
  return out;
}

}  // namespace litespark
