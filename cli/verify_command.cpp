// SPDX-License-Identifier: Apache-2.0
// `litespark verify`: a reference dump's numbers against ours.
#include <iostream>

#include "commands.h"

namespace litespark::cli {
namespace {

class VerifyCommand final : public Command {
 public:
  CommandInfo info() const override {
    return {.name = "verify",
            .purpose = "Holds the numbers of a reference case against ours; exit 1 past a limit.",
            .positionals = {{.name = "CASE_DIR", .help = "A folder with case.json, or with a tokenizer's cases.json."}},
            .example = "litespark verify tests/golden/llama-gqa"};
  }

  void visit(Fields& fields) override {
    fields.add({.path = "json", .value = &json_, .help = "Print one JSON object instead of a table."});
  }

  ExitCode run(const CommandLine& line) override {
    throw ConfigError("verify", "this case is not supported yet", line.positionals.at(0), "a kind that is");
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() {
  return std::make_unique<VerifyCommand>();
}

}  // namespace litespark::cli
