// SPDX-License-Identifier: Apache-2.0
#include "report/run_folder_lines.h"

#include "core/error.h"

namespace litespark::report {

int64_t step_of(const JsonObject& line) {
  const auto step = line.integer("step");
  if (!step || *step < 0) throw DataError(line.where(), "a line needs a \"step\" of 0 or more");
  return *step;
}

MetricsLine metrics_line_kind(const JsonObject& line) {
  const auto has = [&](const char* key) { return line.find(key) != nullptr; };
  if (has("eval_loss") || has("eval_tokens")) return MetricsLine::kEval;
  if (has("warning")) return MetricsLine::kWarning;
  return has("checkpoint_seconds") ? MetricsLine::kSave : MetricsLine::kStep;
}

StepLine step_line_of(const JsonObject& line) {
  return {.step = step_of(line),
          .tokens = line.real("tokens"),
          .loss = line.real("loss"),
          .grad_norm = line.real("grad_norm"),
          .lr = line.real("lr"),
          .tokens_per_second = line.real("tokens_per_second"),
          .mfu = line.real("mfu"),
          .watts = line.real("watts"),
          .joules = line.real("joules"),
          .co2_grams = line.real("co2_grams"),
          .data_wait_seconds = line.real("data_wait_seconds"),
          .skipped = line.boolean("skipped").value_or(false)};
}

EvalLine eval_line_of(const JsonObject& line) {
  return {.step = step_of(line), .loss = line.real("eval_loss")};
}

WarningLine warning_line_of(const JsonObject& line) {
  return {.step = step_of(line), .text = line.text("warning").value_or("")};
}

EnergyLine energy_line_of(const JsonObject& line) {
  if (line.real("joules").value_or(0) < 0)
    throw DataError(line.where(), "negative joules", *line.real("joules"), "0 or more");
  return {.device = line.text("device").value_or("unnamed device"),
          .method = line.text("method").value_or("unknown method"),
          .step = line.integer("step"),
          .seconds = line.real("seconds"),
          .joules = line.real("joules"),
          .watts = line.real("watts")};
}

}  // namespace litespark::report
