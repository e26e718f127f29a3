// SPDX-License-Identifier: Apache-2.0
#include "plan/row_words.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "plan/row_text.h"
#include "plan/validation.h"

namespace litespark {
namespace {

using Words = std::vector<std::string_view>;

std::string one_of(const Words& words) {
  std::string text = "one of ";
  for (const std::string_view word : words) text += (word == words.front() ? "" : ", ") + std::string(word);
  return text;
}

struct UnitsOfMetric {
  std::string_view part;  ///< of the metric's name
  Words units;
};

const Words kTimes = {"s", "sec", "ms", "us", "min"};
const Words kBytes = {"bytes", "B", "GiB", "GB", "MiB", "MB"};

/// The first whose part is in the metric's name.
Words units_among(const std::vector<UnitsOfMetric>& table, const std::string& metric, const Words& otherwise) {
  for (const UnitsOfMetric& entry : table) {
    if (contains_text(metric, entry.part)) return entry.units;
  }
  return otherwise;
}

/// What predictions are made in; empty: the metric is never predicted.
Words units_of(const ValidationRow& row) {
  const Words percent = {"%"};
  const Words mass = {"tCO2e", "tCO2"};
  const std::string metric = lower_text(row.metric);
  switch (group_of(row)) {
    case ValidationGroup::kMemory: return units_among({{"rel_to", percent}}, metric, kBytes);
    case ValidationGroup::kBandwidth: return {"GB/s"};
    case ValidationGroup::kEnergy:
      return units_among({{"hours", {}},
                          {"power", {"kW", "W"}},
                          {"emission", mass},
                          {"carbon", {}},
                          {"co2", {}},
                          {"energy", {"kWh", "MWh"}}},
                         metric, {});
    case ValidationGroup::kStepTime:
      if (contains_text(lower_text(row.unit), "flop")) return {"TFLOP/s", "TFLOPS", "TFLOP/s/GPU"};
      return units_among({{"tflop", {"TFLOP/s", "TFLOPS", "TFLOP/s/GPU"}},
                          {"token", {"token/s", "tokens/s", "token/s/GPU", "tokens/s/GPU"}},
                          {"sample", {"sample/s", "samples/s", "sequence/s", "sequences/s"}},
                          {"sequences", {"sample/s", "samples/s", "sequence/s", "sequences/s"}}},
                         metric, kTimes);
    default: return units_among({{"mfu", percent}, {"time", kTimes}}, metric, {});
  }
}

bool is_among(const Words& words, const std::string& cell) {
  const std::string lower = lower_text(cell);
  return words.empty() || lower.empty() ||
         std::any_of(words.begin(), words.end(), [&](std::string_view word) { return lower_text(word) == lower; });
}

/// Texts of sources add to the word: "amp_bf16", "selective (op-level)".
bool has_one(const Words& words, const std::string& cell) {
  const std::string lower = lower_text(cell);
  return lower.empty() ||
         std::any_of(words.begin(), words.end(), [&](std::string_view word) { return contains_text(lower, word); });
}

}  // namespace

std::optional<UnknownWord> unknown_word(const ValidationRow& row) {
  static const Words kPrecisions = {"bf16", "fp16", "fp8", "bfloat16", "float16", "not stated"};
  static const Words kRecomputes = {"none", "selective", "full", "block", "any", "not stated"};
  if (const Words units = units_of(row); !is_among(units, row.unit))
    return UnknownWord{"unit", row.unit, one_of(units)};
  if (!has_one(kPrecisions, row.precision)) {
    return UnknownWord{"precision", row.precision, "a text with " + one_of(kPrecisions)};
  }
  if (!has_one(kRecomputes, row.recompute)) {
    return UnknownWord{"recompute", row.recompute, "a text with " + one_of(kRecomputes)};
  }
  return std::nullopt;
}

}  // namespace litespark
