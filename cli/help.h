// SPDX-License-Identifier: Apache-2.0
// Help texts, made from the same lists that parse.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "command.h"

namespace litespark::cli {

/// `litespark help`: every command with its purpose.
std::string program_help(std::span<const std::unique_ptr<Command>> commands);

/// `litespark COMMAND --help`: purpose, arguments, each option with unit, range and default, one example.
std::string command_help(Command& command);

/// Every key of a file by section: range, unit, default, purpose.
std::string keys_help(const Fields& fields);

/// `litespark help config`: every key of a run file, by section.
std::string config_help();

}  // namespace litespark::cli
