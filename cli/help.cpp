// SPDX-License-Identifier: Apache-2.0
#include "help.h"

#include <algorithm>

#include "command_line.h"

namespace litespark::cli {
namespace {

std::string padded(std::string_view text, size_t width) {
  return std::string(text) + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

std::string usage_line(const CommandInfo& info, const CommandFields& fields) {
  std::string line = "litespark " + std::string(info.name);
  for (const Positional& positional : info.positionals) {
    std::string name(positional.name);
    if (positional.is_repeated) name += " ...";
    line += positional.is_required ? " " + name : " [" + name + "]";
  }
  if (!fields.options.list().empty()) line += " [options]";
  if (!fields.file.list().empty()) line += " [--section.key=value ...]";
  return line;
}

}  // namespace

std::string program_help(std::span<const std::unique_ptr<Command>> commands) {
  size_t width = 0;
  for (const auto& command : commands) width = std::max(width, command->info().name.size());
  std::string out =
      "Litespark trains Llama-family language models and says where every joule went.\n\n"
      "usage: litespark COMMAND [arguments]\n\n";
  for (const auto& command : commands) {
    const CommandInfo info = command->info();
    out += "  " + padded(info.name, width) + "  " + std::string(info.purpose) + "\n";
  }
  return out +
         "\n  litespark COMMAND --help    arguments and options of a command\n"
         "  litespark help config       every key of a run file\n"
         "  litespark --version         version and backends\n";
}

std::string command_help(Command& command) {
  const CommandInfo info = command.info();
  const CommandFields fields = CommandFields::of(command);
  std::string out = std::string(info.purpose) + "\n\nusage: " + usage_line(info, fields) + "\n";
  if (!info.positionals.empty()) {
    out += "\n";
    for (const Positional& positional : info.positionals) {
      out += "  " + padded(positional.name, 16) + "  " + std::string(positional.help) + "\n";
    }
  }
  if (!fields.options.list().empty()) out += "\noptions\n" + help_text(fields.options, "");
  if (!fields.file.list().empty()) {
    out += "\nkeys of " + std::string(info.positionals.front().name) + ", each also as --section.key=value\n" +
           keys_help(fields.file);
  }
  return out + "\nexample\n  " + std::string(info.example) + "\n";
}

std::string config_help() {
  RunConfig defaults;
  return keys_help(Fields::of(defaults));
}

std::string keys_help(const Fields& fields) {
  std::string out = help_text(fields, "");
  for (const Section& section : fields.sections()) {
    out += "\n[" + section.path + "]  " + std::string(section.help) + "\n" + help_text(fields, section.path);
  }
  return out;
}

}  // namespace litespark::cli
