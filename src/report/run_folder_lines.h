// SPDX-License-Identifier: Apache-2.0
// One line of metrics.jsonl or energy.jsonl as the report's structs. Included by .cpp files only, as json_access.h.
#pragma once

#include "report/json_access.h"
#include "report/run_folder.h"

namespace litespark::report {

/// "step", which every line of metrics.jsonl has; DataError otherwise.
int64_t step_of(const JsonObject& line);

/// What a line of metrics.jsonl tells of.
enum class MetricsLine : uint8_t { kStep, kEval, kWarning, kSave };
MetricsLine metrics_line_kind(const JsonObject& line);

StepLine step_line_of(const JsonObject& line);
EvalLine eval_line_of(const JsonObject& line);
WarningLine warning_line_of(const JsonObject& line);
EnergyLine energy_line_of(const JsonObject& line);

}  // namespace litespark::report
