// SPDX-License-Identifier: Apache-2.0
// Whole documents from a field list: TOML, JSON, help and the checked-in key list.
#include <algorithm>

#include "core/fields.h"
#include "core/json_text.h"

namespace litespark {
namespace {

/// Fields of one section in listed order.
std::vector<const Field*> members(const Fields& fields, std::string_view section) {
  std::vector<const Field*> out;
  for (const Field& field : fields.list()) {
    if (field.section() == section) out.push_back(&field);
  }
  return out;
}

std::string_view parent_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string json_object(const Fields& fields, std::string_view section, const std::string& indent) {
  const std::string inner = indent + "  ";
  std::string out;
  const auto entry = [&](std::string_view name, const std::string& value) {
    out += (out.empty() ? "\n" : ",\n") + inner + json_string(name) + ": " + value;
  };
  for (const Field* field : members(fields, section)) {
    const std::string value = value_text(*field);
    entry(field->name(), value.empty() ? "null" : value);
  }
  for (const Section& part : fields.sections()) {
    if (parent_of(part.path) != section || part.path == section) continue;
    entry(std::string_view(part.path).substr(part.path.rfind('.') + 1), json_object(fields, part.path, inner));
  }
  return "{" + out + "\n" + indent + "}";
}

std::string default_text(const Field& field) {
  const std::string value = value_text(field);
  return value.empty() ? "unset" : value;
}

/// Breaks at spaces so that no line passes `width`; every line gets `indent`.
std::string wrapped(std::string_view text, const std::string& indent, size_t width) {
  std::string out;
  std::string line;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      out += indent + line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
  }
  return line.empty() ? out : out + indent + line + "\n";
}

}  // namespace

std::string to_toml(const Fields& fields) {
  std::string out;
  const auto write_members = [&](std::string_view section) {
    for (const Field* field : members(fields, section)) {
      const std::string value = value_text(*field);
      if (!value.empty()) out += std::string(field->name()) + " = " + value + "\n";
    }
  };
  write_members("");
  for (const Section& section : fields.sections()) {
    out += (out.empty() ? "[" : "\n[") + section.path + "]\n";
    write_members(section.path);
  }
  return out;
}

std::string to_json(const Fields& fields) {
  return json_object(fields, "", "");
}

std::string key_list(const Fields& fields) {
  std::string out;
  for (const Field& field : fields.list()) {
    out += field.path + "  " + expected_text(field) + "  " + default_text(field) + "\n";
  }
  return out;
}

std::string help_text(const Fields& fields, std::string_view section) {
  constexpr size_t kWidth = 100;
  std::string out;
  for (const Field* field : members(fields, section)) {
    std::string head = "--" + field->path + "  (" + expected_text(*field);
    if (!field->unit.empty()) head += "; " + std::string(field->unit);
    head += "; default " + default_text(*field) + ")";
    out += wrapped(head, "  ", kWidth);
    out += wrapped(field->help, "        ", kWidth);
  }
  return out;
}

}  // namespace litespark
