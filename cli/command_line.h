// SPDX-License-Identifier: Apache-2.0
// The command line's grammar: overrides first, then options, then positionals; what is left over is an error.
#pragma once

#include <span>
#include <string>

#include "command.h"

namespace litespark::cli {

/// What may follow a command's name.
struct CommandFields {
  Fields options;
  Fields file;  ///< keys of the file that the command takes

  static CommandFields of(Command& command);
};

/// Whether --help or -h stands among the arguments (before a bare "--").
bool asks_for_help(std::span<const std::string> arguments);

/// Takes --section.key=value out (a key of `file`), stores options in `options`, collects positionals. `--name value`
/// and `--name=value` mean the same; a yes-or-no option alone means yes; all after "--" is positional. Throws
/// ConfigError for unknown options (with the nearest name), missing values, and too few or too many positionals.
CommandLine parse_command_line(const CommandInfo& info, const CommandFields& fields,
                               std::span<const std::string> arguments);

}  // namespace litespark::cli
