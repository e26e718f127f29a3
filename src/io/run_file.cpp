// SPDX-License-Identifier: Apache-2.0
#include "io/run_file.h"

#include <toml++/toml.h>

#include <map>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/json_text.h"
#include "io/file.h"

namespace litespark {
namespace {

/// A run file is written by hand; anything larger is some other file.
constexpr int64_t kLargestRunFileBytes = 1 << 20;

/// Assigns the nodes of a parsed document, remembering where they stood.
class TomlReader {
 public:
  TomlReader(std::string_view name, const Fields& fields) : name_(name), fields_(fields) {}

  void read_table(const toml::table& table, const std::string& prefix) const {
    for (const auto& [key, node] : table) {
      const std::string path = prefix + std::string(key.str());
      const std::string where = place(key.source().begin.line);
      if (const toml::table* inner = node.as_table(); inner != nullptr && fields_.has_section(path)) {
        read_table(*inner, path + ".");
      } else if (const Field* field = fields_.find(path)) {
        assign(*field, value_of(node, *field, where), where);
      } else if (fields_.has_section(path)) {
        throw ConfigError(where + ": " + path, "wrong type", kind_name(node), "a section, [" + path + "]");
      } else {
        throw_unknown_key(fields_, path, where);
      }
    }
  }

 private:
  std::string place(toml::source_index line) const { return std::string(name_) + " line " + std::to_string(line); }

  static std::string kind_name(const toml::node& node) {
    switch (node.type()) {
      case toml::node_type::table: return "a section";
      case toml::node_type::array: return "a mixed or nested list";
      case toml::node_type::string: return "a text";
      case toml::node_type::integer: return "an integer";
      case toml::node_type::floating_point: return "a number";
      case toml::node_type::boolean: return "true or false";
      default: return "a date or time";
    }
  }

  static std::optional<ConfigValue> list_of(const toml::array& array) {
    std::vector<double> numbers;
    std::vector<std::string> texts;
    for (const toml::node& item : array) {
      if (item.is_number()) {
        numbers.push_back(*item.value<double>());
      } else if (item.is_string()) {
        texts.push_back(*item.value<std::string>());
      } else {
        return std::nullopt;
      }
    }
    if (!texts.empty() && !numbers.empty()) return std::nullopt;
    if (!texts.empty()) return texts;
    return numbers;
  }

  ConfigValue value_of(const toml::node& node, const Field& field, const std::string& where) const {
    if (const auto* boolean = node.as_boolean()) return boolean->get();
    if (const auto* integer = node.as_integer()) return integer->get();
    if (const auto* number = node.as_floating_point()) return number->get();
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* array = node.as_array()) {
      if (const auto list = list_of(*array)) return *list;
    }
    throw ConfigError(where + ": " + field.path, "wrong type", kind_name(node), expected_text(field));
  }

  std::string_view name_;
  const Fields& fields_;
};

}  // namespace

std::string read_toml_text(const std::filesystem::path& path) {
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) {
    throw ConfigError(path.string(), "is not a file", status ? status.message() : "nothing to read", "a TOML file");
  }
  return read_text_file(path, kLargestRunFileBytes);
}

void read_toml(std::string_view text, std::string_view name, const Fields& fields) {
  toml::table document;
  try {
    document = toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw ConfigError(std::string(name) + " line " + std::to_string(error.source().begin.line),
                      "is not valid TOML: " + std::string(error.description()));
  }
  TomlReader(name, fields).read_table(document, "");
}

void apply_overrides(std::span<const ConfigOverride> overrides, const Fields& fields) {
  std::map<std::string, std::string> seen;
  for (const ConfigOverride& item : overrides) {
    const Field* field = fields.find(item.path);
    if (field == nullptr && fields.has_section(item.path)) {
      throw ConfigError("command line: " + item.path, "is a section", "--" + item.path + "=" + item.value,
                        "--" + item.path + ".key=value");
    }
    if (field == nullptr) throw_unknown_key(fields, item.path, "command line");
    const auto [entry, is_new] = seen.emplace(item.path, item.value);
    if (!is_new && entry->second != item.value) {
      throw ConfigError("command line: " + item.path, "is given two values",
                        json_string(entry->second) + " and " + json_string(item.value), "one value");
    }
    assign_text(*field, item.value, "command line");
  }
}

RunConfig read_run_file(const std::filesystem::path& path, std::span<const ConfigOverride> overrides) {
  RunConfig config;
  const Fields fields = Fields::of(config);
  read_toml(read_toml_text(path), path.filename().string(), fields);
  apply_overrides(overrides, fields);
  if (config.out.empty()) config.out = "runs/" + path.stem().string();
  config.validate();
  return config;
}

std::string run_config_toml(const RunConfig& config) {
  RunConfig copy = config;
  return to_toml(Fields::of(copy));
}

std::string run_config_json(const RunConfig& config) {
  RunConfig copy = config;
  return to_json(Fields::of(copy));
}

}  // namespace litespark
