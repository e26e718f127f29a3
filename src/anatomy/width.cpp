// SPDX-License-Identifier: Apache-2.0
#include "anatomy/width.h"

#include <algorithm>
#include <set>

#include "anatomy/ceilings.h"
#include "core/checked.h"
#include "core/error.h"

namespace litespark::anatomy {
namespace {

constexpr int64_t kLeastMultiple = 64;

double product_seconds(Backend& backend, const MeasureOptions& options, int64_t rows, int64_t in_features,
                       int64_t out_features) {
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in_features * out_features);
  return flops / measure_matmul(backend, options, rows, in_features, out_features);
}

}  // namespace

std::vector<int64_t> candidate_widths(int64_t width) {
  std::set<int64_t> widths = {width};
  for (int64_t multiple = kLeastMultiple; multiple <= std::max(width / 4, kLeastMultiple); multiple *= 2) {
    widths.insert(round_up(width, multiple));
    widths.insert(std::max(width / multiple * multiple, kLeastMultiple));
  }
  return {widths.begin(), widths.end()};
}

WidthTable measure_widths(Backend& backend, const MeasureOptions& options, const WidthSizes& sizes) {
  WidthTable table{.device = backend.name(),
                   .compute = std::string(dtype_name(options.compute)),
                   .rows = sizes.rows,
                   .hidden = sizes.hidden,
                   .widths = {},
                   .seconds = {}};
  for (const int64_t width : candidate_widths(sizes.width)) {
    table.widths.push_back(static_cast<double>(width));
    table.seconds.push_back(product_seconds(backend, options, sizes.rows, sizes.hidden, 2 * width) +
                            product_seconds(backend, options, sizes.rows, width, sizes.hidden));
  }
  return table;
}

Chapter width_chapter(const WidthTable& table, int64_t width) {
  const auto advice = advise_width(table, width);
  if (!advice) throw InternalError("width", "the asked width was not measured", width, "a row of the table");
  Chapter chapter{.name = "width", .title = "feed-forward widths on this machine"};
  chapter.setup = {{"products", std::to_string(table.rows) + " tokens, hidden size " + std::to_string(table.hidden) +
                                    ", gate and up together, then down; forward; " + table.compute}};
  WidthChoice asked;
  WidthChoice widest;
  Table rows{.key = "widths",
             .title = "widths near " + std::to_string(width) + "; padded columns are no useful work",
             .columns = {"width", "time", "GFLOP/s, all", "GFLOP/s, useful", "time against " + std::to_string(width)},
             .rows = {}};
  for (const WidthChoice& choice : advice->choices) {
    if (choice.width == width) asked = choice;
    widest = choice;
    rows.rows.push_back({quantity(static_cast<double>(choice.width), "", 0), seconds_value(choice.seconds),
                         quantity(choice.flops_per_second / 1e9, "", 1),
                         quantity(choice.useful_flops_per_second / 1e9, "", 1), factor(1 + choice.slower)});
  }
  Value against = quantity(asked.flops_per_second / 1e9, "", 1);
  against.text += " -> " + quantity(widest.flops_per_second / 1e9, "GFLOP/s", 1).text;
  against.number = widest.flops_per_second / asked.flops_per_second;
  against.unit = "x";
  chapter.findings = {{.key = "aligned_rate",
                       .what = std::to_string(width) + " -> " + std::to_string(widest.width) + ", rate of all columns",
                       .ours = against,
                       .claim = "L6",
                       .published = "11,008 -> 12,288: 423 -> 798 TFLOP/s"},
                      {.key = "aligned_time",
                       .what = std::to_string(width) + " -> " + std::to_string(widest.width) + ", time",
                       .ours = factor(1 + widest.slower),
                       .claim = "L6",
                       .published = "bandwidth use 58 -> 82 %",
                       .advice = width_verdict(*advice)}};
  chapter.tables = {rows};
  return chapter;
}

}  // namespace litespark::anatomy
