// SPDX-License-Identifier: Apache-2.0
#include "core/check_list.h"

#include <algorithm>

#include "core/json_text.h"

namespace litespark {
namespace {

int64_t count(const std::vector<Check>& checks, Outcome outcome) {
  return std::count_if(checks.begin(), checks.end(), [&](const Check& check) { return check.outcome == outcome; });
}

std::string padded(std::string_view text, size_t width) {
  return std::string(text) + std::string(width - std::min(width, text.size()), ' ');
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass: return "pass";
    case Outcome::kNote: return "note";
    case Outcome::kSkip: return "skip";
    case Outcome::kFail: return "FAIL";
    case Outcome::kHardware: return "HARDWARE";
  }
  throw InternalError("outcome_name", "unknown outcome", static_cast<int>(outcome), "an Outcome");
}

ExitCode exit_code_of(const std::vector<Check>& checks) {
  if (count(checks, Outcome::kHardware) > 0) return ExitCode::kHardware;
  return count(checks, Outcome::kFail) > 0 ? ExitCode::kCheckFailed : ExitCode::kDone;
}

std::string checks_text(const std::vector<Check>& checks) {
  size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  std::string text;
  for (const Check& check : checks) {
    text += padded(check.name, width) + "  " + padded(outcome_name(check.outcome), 8) + "  " + check.detail + "\n";
  }
  const int64_t failed = count(checks, Outcome::kFail);
  const int64_t suspected = count(checks, Outcome::kHardware);
  text += "\n" + std::to_string(checks.size()) + " checks, ";
  if (failed + suspected == 0) return text + "nothing wrong\n";
  text += std::to_string(failed + suspected) + " failed";
  return text + (suspected > 0 ? "; suspect this machine: its results cannot be trusted\n" : "\n");
}

std::string checks_json(const std::vector<Check>& checks) {
  std::string rows;
  for (const Check& check : checks) {
    rows += (rows.empty() ? "\n  " : ",\n  ") + ("{\"name\": " + json_string(check.name)) +
            ", \"outcome\": " + json_string(outcome_name(check.outcome)) +
            ", \"detail\": " + json_string(check.detail) + "}";
  }
  return std::string("{\"pass\": ") + (exit_code_of(checks) == ExitCode::kDone ? "true" : "false") + ", \"checks\": [" +
         rows + "\n]}\n";
}

}  // namespace litespark
