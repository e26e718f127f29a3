// SPDX-License-Identifier: Apache-2.0
#include "text_commands.h"

#include "commands.h"
#include "token/golden_cases.h"

namespace litespark::cli {

void add_text_commands(std::vector<std::unique_ptr<Command>>& commands) {
  commands.push_back(make_prepare_command());
  commands.push_back(make_tokenize_command());
  commands.push_back(make_generate_command());
}

std::optional<VerifyReport> verify_tokenizer_case(const std::filesystem::path& folder) {
  if (!token::has_tokenizer_cases(folder)) return std::nullopt;
  VerifyReport report;
  report.kind = "tokenizer";
  for (const token::CaseCheck& check : token::check_tokenizer_cases(folder)) {
    report.checks.push_back({.name = check.name, .error = check.error, .limit = check.limit, .pass = check.pass});
  }
  return report;
}

}  // namespace litespark::cli
