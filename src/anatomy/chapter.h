// SPDX-License-Identifier: Apache-2.0
// What a chapter of `litespark anatomy` found: our figures of this very call beside the published ones, and what to do
// about them. One struct, printed as text or as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace litespark::anatomy {

/// How a figure reads, and its number and unit where it is one.
struct Value {
  std::string text;
  std::optional<double> number = {};
  std::string unit = {};
};

/// No number.
Value words(std::string text);
/// "12.3 GB/s".
Value quantity(double number, const std::string& unit, int decimals = 1);
/// "3.2 MiB"; the number counts bytes.
Value bytes_value(double bytes);
/// "12.3 ms", "4.5 us": whatever keeps the number at 1 or above; the number counts seconds.
Value seconds_value(double seconds);
/// "37.2 %"; the number is the share.
Value percent(double share);
/// "1.83 x"; the number is the factor.
Value factor(double times);

/// One line of a chapter.
struct Finding {
  std::string key;  ///< stable name in JSON
  std::string what;
  Value ours;
  std::string claim = {};  ///< "C4": the source's claim, when it states a figure
  std::string published = {};
  std::string advice = {};  ///< what to do about it; empty: nothing
};

/// Numbers of one chapter by size, layer or option.
struct Table {
  std::string key;
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Value>> rows;
};

struct Chapter {
  std::string name;
  std::string title;
  std::vector<std::pair<std::string, std::string>> setup = {};  ///< what was measured: sizes, device
  std::vector<Finding> findings = {};
  std::vector<Table> tables = {};

  /// nullptr when there is no such finding.
  const Finding* find(const std::string& key) const;
};

/// For people: setup, findings, tables, then the advice.
std::string chapter_text(const Chapter& chapter);

/// One object: "chapter", "title", "setup", "findings" by key with "value", "unit", "text", "claim", "published",
/// "advice"; "tables" by key with "columns" and "rows", whose cells are numbers where they are figures.
std::string chapter_json(const Chapter& chapter);

}  // namespace litespark::anatomy
