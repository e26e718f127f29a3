// SPDX-License-Identifier: Apache-2.0
#include "text_commands.h"

#include <array>

#include "commands.h"
#include "core/json_text.h"
#include "token/golden_cases.h"
#include "token/tokenizer.h"
#include "training_inputs.h"

namespace litespark::cli {
namespace {

/// Printable ASCII is enough to tell a tokenizer of bytes from any other.
void require_bytes(const token::Tokenizer& tokenizer) {
  for (int32_t id = ' '; id <= '~'; ++id) {
    const std::string found = tokenizer.decode(std::array{id}, false);
    const std::string expected(1, static_cast<char>(id));
    if (found == expected) continue;
    throw ConfigError(
        "data.tokenizer",
        "ids of data.source = \"text\" are bytes, but this tokenizer reads id " + std::to_string(id) + " otherwise",
        json_string(found), json_string(expected), "prepare shards with it, or leave it out");
  }
}

}  // namespace

void add_text_commands(std::vector<std::unique_ptr<Command>>& commands) {
  commands.push_back(make_prepare_command());
  commands.push_back(make_tokenize_command());
  commands.push_back(make_generate_command());
}

void check_tokenizer(const RunConfig& config) {
  require_tokenizer_file(config);
  if (config.data.tokenizer.empty()) return;
  const token::Tokenizer tokenizer = token::Tokenizer::load(config.data.tokenizer);
  if (config.data.source == DataSource::kText) require_bytes(tokenizer);
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
