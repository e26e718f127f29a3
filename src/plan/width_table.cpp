// SPDX-License-Identifier: Apache-2.0
#include "plan/width_table.h"

#include <algorithm>

#include "core/error.h"
#include "core/text_table.h"

namespace litespark {
namespace {

/// Differences below this are the measurement's own.
constexpr double kNoise = 0.02;
/// Of rows and of columns, so that the elements of a matrix fit a 64-bit number.
constexpr double kMostSize = 1e9;

std::string percent_text(double share) {
  return fixed_text(100 * share) + " %";
}

std::string rate_text(double flops_per_second) {
  return flops_per_second >= 1e13 ? fixed_text(flops_per_second / 1e12) + " TFLOP/s"
                                  : fixed_text(flops_per_second / 1e9) + " GFLOP/s";
}

}  // namespace

void WidthTable::visit(Fields& fields) {
  fields.add({.path = "device", .value = &device, .help = "What was measured."});
  fields.add({.path = "compute", .value = &compute, .help = "Dtype of the products.", .choices = {"f32", "bf16"}});
  fields.add({.path = "rows", .value = &rows, .help = "Tokens of a product.", .range = between(1, kMostSize)});
  fields.add({.path = "hidden", .value = &hidden, .help = "Hidden size C.", .range = between(1, kMostSize)});
  fields.add({.path = "widths", .value = &widths, .help = "Feed-forward widths.", .range = between(1, kMostSize)});
  fields.add({.path = "seconds",
              .value = &seconds,
              .help = "Of gate, up and down at each width, forward.",
              .unit = "s",
              .range = between(1e-12, 1e6)});
}

void WidthTable::validate(std::string_view file) const {
  const auto key = [&](const char* name) { return std::string(file) + (file.empty() ? "" : ": ") + name; };
  if (widths.empty() || widths.size() != seconds.size()) {
    throw ConfigError(key("seconds"), "must have one entry a width", seconds.size(), widths.size());
  }
  if (rows < 1 || hidden < 1) throw ConfigError(key("hidden"), "and rows must be there", hidden, "1 or more");
}

std::optional<WidthAdvice> advise_width(const WidthTable& table, int64_t width) {
  const auto asked = static_cast<double>(width);
  const auto found = std::find(table.widths.begin(), table.widths.end(), asked);
  if (found == table.widths.end()) return std::nullopt;
  const double asked_seconds = table.seconds[static_cast<size_t>(found - table.widths.begin())];
  WidthAdvice advice{.asked = width, .choices = {}, .best = {}};
  for (size_t i = 0; i < table.widths.size(); ++i) {
    const double seconds = table.seconds[i];
    const double useful = std::min(table.widths[i], asked);
    const WidthChoice choice{.width = static_cast<int64_t>(table.widths[i]),
                             .seconds = seconds,
                             .flops_per_second = table.flops(table.widths[i]) / seconds,
                             .useful_flops_per_second = table.flops(useful) / seconds,
                             .slower = seconds / asked_seconds - 1};
    advice.choices.push_back(choice);
    if (choice.width < width) continue;
    const bool is_first = advice.best.width == 0;
    // A wider one must win by more than the measurement's own noise.
    const double margin = choice.width == width ? 0 : kNoise;
    if (is_first || choice.useful_flops_per_second > (1 + margin) * advice.best.useful_flops_per_second) {
      advice.best = choice;
    }
  }
  return advice;
}

std::string width_verdict(const WidthAdvice& advice) {
  if (advice.best.width == advice.asked) {
    return "keep " + std::to_string(advice.asked) + ": no wider one is faster for the same useful work";
  }
  return "take " + std::to_string(advice.best.width) + ": padded to it, the same useful work takes " +
         percent_text(-advice.best.slower) + " less time";
}

std::string width_text(const WidthTable& table, const WidthAdvice& advice) {
  TextTable text({"width", "time", "all columns", "useful at " + std::to_string(advice.asked), "against it"});
  for (const WidthChoice& choice : advice.choices) {
    text.add({std::to_string(choice.width), fixed_text(1e3 * choice.seconds, 3) + " ms",
              rate_text(choice.flops_per_second), rate_text(choice.useful_flops_per_second),
              (choice.slower >= 0 ? "+" : "") + percent_text(choice.slower)});
  }
  return "widths near " + std::to_string(advice.asked) + ", measured on " + table.device + " (" + table.compute + ", " +
         std::to_string(table.rows) + " tokens, hidden size " + std::to_string(table.hidden) + "):\n" +
         text.to_string("  ") + "  " + width_verdict(advice) + "\n";
}

}  // namespace litespark
