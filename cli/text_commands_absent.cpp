// SPDX-License-Identifier: Apache-2.0
// What stands in for the text commands in a build without the text modules.
#include "text_commands.h"
#include "training_inputs.h"

namespace litespark::cli {

void add_text_commands(std::vector<std::unique_ptr<Command>>& /*commands*/) {}

std::optional<VerifyReport> verify_tokenizer_case(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / "cases.json", error)) return std::nullopt;
  throw ConfigError("verify", "this build has no tokenizers", folder.string(), "a model's case",
                    "build with -DLITESPARK_TEXT=ON");
}

void check_tokenizer(const RunConfig& config) {
  require_tokenizer_file(config);
}

TakeSample make_sampler(const RunConfig& config, Executor& /*executor*/) {
  if (config.train.sample_every == 0) return {};
  throw ConfigError("train.sample_every", "this build has no tokenizers", config.train.sample_every, 0,
                    "build with -DLITESPARK_TEXT=ON");
}

}  // namespace litespark::cli
