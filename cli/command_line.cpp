// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <algorithm>

#include "core/nearest.h"

namespace litespark::cli {
namespace {

constexpr std::string_view kWhere = "command line";

/// "--name=value" in its two halves.
struct Option {
  std::string name;
  std::string value;
  bool has_value = false;
};

Option split(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) return {.name = argument.substr(2)};
  return {.name = argument.substr(2, equals - 2), .value = argument.substr(equals + 1), .has_value = true};
}

bool is_flag(const Field& field) {
  return std::holds_alternative<bool*>(field.value) || std::holds_alternative<std::optional<bool>*>(field.value);
}

class Parser {
 public:
  Parser(const CommandInfo& info, const CommandFields& fields)
      : info_(info), options_(fields.options), file_(fields.file) {}

  CommandLine parse(std::span<const std::string> arguments) {
    bool only_positionals = false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (!only_positionals && argument == "--") {
        only_positionals = true;
      } else if (only_positionals || argument == "-" || !argument.starts_with('-')) {
        line_.positionals.push_back(argument);
      } else if (!argument.starts_with("--")) {
        throw ConfigError(kWhere, "unknown option", argument, "options that start with --");
      } else if (take_option(split(argument), arguments.subspan(i + 1))) {
        ++i;
      }
    }
    check_positionals();
    return std::move(line_);
  }

 private:
  /// True when the option's value was the argument after it.
  bool take_option(const Option& option, std::span<const std::string> rest) {
    const Field* field = options_.find(option.name);
    if (field == nullptr) {
      take_override(option);
      return false;
    }
    if (option.has_value || is_flag(*field)) {
      assign_text(*field, option.has_value ? option.value : "true", kWhere);
      return false;
    }
    if (rest.empty() || rest.front().starts_with("--")) {
      throw ConfigError(kWhere, "--" + option.name + " has no value", "nothing", expected_text(*field));
    }
    assign_text(*field, rest.front(), kWhere);
    return true;
  }

  void take_override(const Option& option) {
    const bool is_key = file_.find(option.name) != nullptr || file_.has_section(option.name);
    const bool is_meant_as_key = !file_.list().empty() && option.name.find('.') != std::string::npos;
    if (!is_key && !is_meant_as_key) refuse(option);
    if (!is_key) throw_unknown_key(file_, option.name, kWhere);
    if (!option.has_value) {
      throw ConfigError(kWhere, "a key of the file needs its value after =", "--" + option.name,
                        "--" + option.name + "=value");
    }
    line_.overrides.push_back({option.name, option.value});
  }

  [[noreturn]] void refuse(const Option& option) const {
    std::vector<std::string> names = {"help"};
    for (const Field& field : options_.list()) names.push_back(field.path);
    for (const Field& field : file_.list()) names.push_back(field.path);
    std::string nearest = nearest_name(option.name, names);
    for (const Field& field : file_.list()) {
      if (nearest.empty() && edit_distance(field.name(), option.name) == 0) nearest = field.path;
    }
    throw ConfigError(kWhere, "unknown option", "--" + option.name, "an option of " + std::string(info_.name),
                      nearest.empty() ? "`litespark help " + std::string(info_.name) + "` lists them"
                                      : "did you mean --" + nearest + "?");
  }

  void check_positionals() const {
    const size_t count = line_.positionals.size();
    const auto& known = info_.positionals;
    const bool is_open = !known.empty() && known.back().is_repeated;
    if (count > known.size() && !is_open) {
      throw ConfigError(kWhere, "too many arguments", "\"" + line_.positionals[known.size()] + "\"",
                        "at most " + std::to_string(known.size()), "options start with --");
    }
    for (size_t i = count; i < known.size(); ++i) {
      if (known[i].is_required) {
        throw ConfigError(kWhere, "an argument is missing", "nothing", known[i].name,
                          "`litespark help " + std::string(info_.name) + "` explains it");
      }
    }
  }

  const CommandInfo& info_;
  const Fields& options_;
  const Fields& file_;
  CommandLine line_;
};

}  // namespace

bool asks_for_help(std::span<const std::string> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  return std::any_of(arguments.begin(), end, [](const std::string& a) { return a == "--help" || a == "-h"; });
}

CommandFields CommandFields::of(Command& command) {
  CommandFields fields;
  command.visit(fields.options);
  command.visit_file(fields.file);
  return fields;
}

CommandLine parse_command_line(const CommandInfo& info, const CommandFields& fields,
                               std::span<const std::string> arguments) {
  return Parser(info, fields).parse(arguments);
}

}  // namespace litespark::cli
