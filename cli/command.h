// SPDX-License-Identifier: Apache-2.0
// One subcommand: what it is for, what it takes, what it does. Its options are Fields like everything that a user sets.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/fields.h"
#include "io/run_file.h"

namespace litespark::cli {

struct Positional {
  std::string_view name;  ///< as usage shows it: "RUN.toml"
  std::string_view help;
  bool is_required = true;
  bool is_repeated = false;  ///< takes all that follow; only the last one
};

struct CommandInfo {
  std::string_view name;
  std::string_view purpose;  ///< one sentence
  std::vector<Positional> positionals = {};
  std::string_view example;
  bool computes = false;  ///< on the CPU's threads, where that is the device
};

/// What the user typed after the command's name, options already stored in their fields.
struct CommandLine {
  std::vector<std::string> arguments;  ///< all words, the command's name first, as typed
  std::vector<std::string> positionals;
  std::vector<ConfigOverride> overrides;
};

class Command {
 public:
  virtual ~Command() = default;
  virtual CommandInfo info() const = 0;
  /// The command's own options.
  virtual void visit(Fields&) {}
  /// The keys of the file that it takes, at their defaults: each may also come as --section.key=value.
  virtual void visit_file(Fields&) {}
  /// Prints to standard output; throws Error on failure.
  virtual ExitCode run(const CommandLine& line) = 0;
};

/// Every command, in the order of `litespark help`.
std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace litespark::cli
