// SPDX-License-Identifier: Apache-2.0
// Predictions held against measured rows: each row predicted or excluded with its reason, then errors by metric and by
// source, and one factor a type of hardware as the only thing that is ever fitted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/validation_rows.h"

namespace litespark {

/// kNone: data sheets. kScalar: fitted on rows of one node. kAll: on every row.
enum class ValidationFit : uint8_t { kNone, kScalar, kAll };

enum class ValidationGroup : uint8_t { kStepTime, kMemory, kEnergy, kBandwidth, kOther };

/// "step_time", "memory", ...
std::string group_name(ValidationGroup group);
/// By the metric's name and unit.
ValidationGroup group_of(const ValidationRow& row);

struct RowPrediction {
  const ValidationRow* row = nullptr;
  ValidationGroup group = ValidationGroup::kOther;
  std::string device;     ///< hardware type: what a factor is fitted for
  double predicted = 0;   ///< in the row's unit
  std::string exclusion;  ///< empty when predicted
  bool is_time = false;   ///< more seconds, larger value; false: larger value, fewer seconds
  bool is_one_node = false;

  double error_percent() const { return 100 * (predicted / *row->value - 1); }
};

/// One factor a type of hardware: measured over predicted seconds of a step.
using SlownessByDevice = std::map<std::string, double>;

struct ErrorSummary {
  int64_t n = 0;
  int64_t excluded = 0;
  double median_abs_error_percent = 0;
  double p90_abs_error_percent = 0;
  double max_abs_error_percent = 0;
  double signed_bias_percent = 0;  ///< mean of the signed errors
  double most_under_percent = 0;   ///< the largest prediction below its measurement, as a negative number
};

struct Validation {
  ValidationFit fit = ValidationFit::kScalar;
  SlownessByDevice slowness;
  std::vector<RowPrediction> predictions;  ///< one a row, in their order
  std::vector<std::string> notes;

  ErrorSummary summary(ValidationGroup group) const;
  ErrorSummary summary_of_source(const std::string& source) const;
  /// Source, then group.
  std::map<std::string, std::map<std::string, ErrorSummary>> per_source() const;
};

/// The median over rows of step time, of one node unless `all_rows`.
SlownessByDevice fit_slowness(const ValidationFile& file, bool all_rows);

/// `file` must outlive the result. `fit_from`: the file to fit on, nullptr for `file` itself.
Validation validate(const ValidationFile& file, ValidationFit fit, const ValidationFile* fit_from);

/// The interpolated value at `fraction` of the sorted values; 0 for none.
double quantile(std::vector<double> values, double fraction);

}  // namespace litespark
