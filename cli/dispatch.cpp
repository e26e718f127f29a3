// SPDX-License-Identifier: Apache-2.0
#include "dispatch.h"

#include <sys/prctl.h>

#include <algorithm>
#include <iostream>

#include "command_line.h"
#include "core/nearest.h"
#include "help.h"
#include "run_setup.h"
#include "thread_waiting.h"

namespace litespark::cli {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

Command& find_command(const Commands& commands, const std::string& name) {
  const auto found =
      std::find_if(commands.begin(), commands.end(), [&](const auto& command) { return command->info().name == name; });
  if (found != commands.end()) return **found;
  std::vector<std::string> names = {"help"};
  for (const auto& command : commands) names.emplace_back(command->info().name);
  const std::string nearest = nearest_name(name, names);
  throw ConfigError("command line", "unknown command", name, "a command of `litespark help`",
                    nearest.empty() ? "" : "did you mean " + nearest + "?");
}

/// Output that could not be written is a failure even when the work was done.
ExitCode flushed(ExitCode code) {
  std::cout.flush();
  if (!std::cout) throw IoError("standard output", "could not be written");
  return code;
}

ExitCode print_help(const Commands& commands, const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) {
    std::cout << program_help(commands);
  } else if (arguments[1] == "config") {
    std::cout << config_help();
  } else {
    std::cout << command_help(find_command(commands, arguments[1]));
  }
  return flushed(ExitCode::kDone);
}

}  // namespace

ExitCode dispatch(const std::vector<std::string>& arguments) {
  prctl(PR_SET_NAME, "litespark");  // ranks are started as /proc/self/exe, which would be their name
  const Commands commands = all_commands();
  if (arguments.empty()) {
    std::cerr << program_help(commands);
    return ExitCode::kConfig;
  }
  const std::string& first = arguments.front();
  if (first == "help" || first == "--help" || first == "-h") return print_help(commands, arguments);
  if (first == "--version") {
    std::cout << "litespark " << LITESPARK_VERSION << " (backends: " << linked_backends() << ")\n";
    return flushed(ExitCode::kDone);
  }
  Command& command = find_command(commands, first);
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (asks_for_help(rest)) {
    std::cout << command_help(command);
    return flushed(ExitCode::kDone);
  }
  if (command.info().computes) settle_thread_waiting(arguments);
  const CommandFields fields = CommandFields::of(command);
  CommandLine line = parse_command_line(command.info(), fields, rest);
  line.arguments = arguments;
  return flushed(command.run(line));
}

}  // namespace litespark::cli
