// SPDX-License-Identifier: Apache-2.0
#include "anatomy/chapter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/json_text.h"
#include "core/text_table.h"

namespace litespark::anatomy {
namespace {

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

std::string published_text(const Finding& finding) {
  if (finding.published.empty()) return "";
  return "claim:" + finding.claim + " " + finding.published;
}

std::string findings_text(const std::vector<Finding>& findings) {
  size_t what = 0;
  size_t ours = 4;
  for (const Finding& finding : findings) {
    what = std::max(what, finding.what.size());
    ours = std::max(ours, finding.ours.text.size());
  }
  std::string text = "  " + padded("", what) + "  " + padded("here", ours) + "  published\n";
  for (const Finding& finding : findings) {
    std::string line = "  " + padded(finding.what, what) + "  " + padded(finding.ours.text, ours) + "  ";
    line += published_text(finding);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string advice_lines(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    if (!finding.advice.empty()) text += "  - " + finding.advice + "\n";
  }
  return text.empty() ? text : "\n  what to do\n" + text;
}

std::string table_text(const Table& table) {
  TextTable text(table.columns);
  for (const std::vector<Value>& row : table.rows) {
    std::vector<std::string> cells;
    for (const Value& value : row) cells.push_back(value.text);
    text.add(std::move(cells));
  }
  return "\n  " + table.title + "\n" + text.to_string("  ");
}

std::string finding_json(const Finding& finding) {
  std::string text = "{";
  if (finding.ours.number) {
    text += "\"value\": " + json_number(*finding.ours.number) + ", \"unit\": " + json_string(finding.ours.unit) + ", ";
  }
  text += "\"what\": " + json_string(finding.what) + ", \"text\": " + json_string(finding.ours.text);
  if (!finding.published.empty()) {
    text += ", \"claim\": " + json_string(finding.claim) + ", \"published\": " + json_string(finding.published);
  }
  if (!finding.advice.empty()) text += ", \"advice\": " + json_string(finding.advice);
  return text + "}";
}

template <class List, class One>
std::string joined(const List& list, const One& one) {
  std::string text;
  for (const auto& entry : list) text += (text.empty() ? "" : ", ") + one(entry);
  return text;
}

std::string table_json(const Table& table) {
  const auto cell = [](const Value& value) {
    return value.number ? json_number(*value.number) : json_string(value.text);
  };
  const auto row = [&](const std::vector<Value>& values) { return "[" + joined(values, cell) + "]"; };
  return "{\"title\": " + json_string(table.title) + ", \"columns\": [" +
         joined(table.columns, [](const std::string& name) { return json_string(name); }) + "], \"rows\": [" +
         joined(table.rows, row) + "]}";
}

}  // namespace

Value words(std::string text) {
  return {.text = std::move(text)};
}

Value quantity(double number, const std::string& unit, int decimals) {
  return {.text = fixed_text(number, decimals) + (unit.empty() ? "" : " " + unit), .number = number, .unit = unit};
}

Value bytes_value(double bytes) {
  return {.text = bytes_text(static_cast<int64_t>(std::llround(bytes))), .number = bytes, .unit = "B"};
}

Value seconds_value(double seconds) {
  struct Unit {
    const char* name;
    double seconds;
  };
  constexpr std::array<Unit, 4> kUnits = {{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
  for (const Unit& unit : kUnits) {
    if (seconds < unit.seconds && unit.seconds > 1e-9) continue;
    return {.text = fixed_text(seconds / unit.seconds, 2) + " " + unit.name, .number = seconds, .unit = "s"};
  }
  return {.text = "0 s", .number = seconds, .unit = "s"};
}

Value percent(double share) {
  return {.text = fixed_text(100 * share) + " %", .number = share, .unit = "share"};
}

Value factor(double times) {
  return {.text = fixed_text(times, 2) + " x", .number = times, .unit = "x"};
}

const Finding* Chapter::find(const std::string& key) const {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& one) { return one.key == key; });
  return found == findings.end() ? nullptr : &*found;
}

std::string chapter_text(const Chapter& chapter) {
  std::string text = chapter.name + ": " + chapter.title + "\n";
  for (const auto& [name, value] : chapter.setup) text += "  " + name + ": " + value + "\n";
  if (!chapter.findings.empty()) text += "\n" + findings_text(chapter.findings);
  for (const Table& table : chapter.tables) text += table_text(table);
  return text + advice_lines(chapter.findings);
}

std::string chapter_json(const Chapter& chapter) {
  const auto pair = [](const auto& entry) { return json_string(entry.first) + ": " + json_string(entry.second); };
  const auto finding = [](const Finding& one) { return json_string(one.key) + ": " + finding_json(one); };
  const auto table = [](const Table& one) { return json_string(one.key) + ": " + table_json(one); };
  return "{\"chapter\": " + json_string(chapter.name) + ", \"title\": " + json_string(chapter.title) +
         ", \"setup\": {" + joined(chapter.setup, pair) + "}, \"findings\": {" + joined(chapter.findings, finding) +
         "}, \"tables\": {" + joined(chapter.tables, table) + "}}";
}

}  // namespace litespark::anatomy
