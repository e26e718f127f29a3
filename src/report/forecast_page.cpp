// SPDX-License-Identifier: Apache-2.0
#include "report/forecast_page.h"

#include "core/text_table.h"
#include "plan/forecast_report.h"
#include "report/html.h"
#include "report/line_chart.h"
#include "report/page_style.h"

namespace litespark::report {
namespace {

std::string memory_bars(const RunForecast& forecast) {
  const auto bar = [](const char* name, double bytes) {
    return Bar{.name = name, .amount = bytes, .value_text = bytes_text(static_cast<int64_t>(bytes))};
  };
  const double memory = forecast.hardware.memory_bytes();
  return html_bars({bar(forecast.fits() ? "the run" : "the run, which does not fit", forecast.memory_bytes),
                    bar("a device", memory)});
}

std::string step_bars(const StepSeconds& step) {
  std::vector<Bar> bars;
  for (const auto& [name, seconds] : step_parts(step)) {
    if (seconds > 0) {
      bars.push_back({.name = name, .amount = seconds, .value_text = fixed_text(1000 * seconds, 2) + " ms"});
    }
  }
  return html_bars(bars);
}

std::string cost_bars(const EnergyCost& cost) {
  std::vector<Bar> bars;
  const auto add = [&](const char* name, double dollars) {
    if (dollars > 0) bars.push_back({.name = name, .amount = dollars, .value_text = fixed_text(dollars, 2)});
  };
  add("rent of devices", cost.rent_dollars);
  add("data", cost.data_dollars);
  add("labels", cost.label_dollars);
  return html_bars(bars);
}

std::string scaling_chart(const std::vector<ScalingPoint>& scaling) {
  if (scaling.size() < 2) return {};
  ChartSeries series{.name = "tokens a second and device", .points = {}, .has_markers = true};
  for (const ScalingPoint& point : scaling) {
    const auto gpus = static_cast<double>(point.gpus);
    series.points.push_back({.x = gpus, .y = point.tokens_per_second / gpus});
  }
  return line_chart_html({.title = "More data-parallel ranks, each with its share of a larger batch",
                          .x_name = "devices",
                          .unit = "tokens/s a device",
                          .series = {series},
                          .starts_at_zero = true});
}

}  // namespace

std::string forecast_page(const RunForecast& forecast, const std::vector<ScalingPoint>& scaling,
                          const std::string& title) {
  const std::string name = escape_html(title);
  std::string html = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + name +
                     "</title><style>" + std::string(kPageStyle) + "</style></head><body><main>\n<header><h1>" + name +
                     "</h1></header>\n";
  html += "<h2>Memory of a device</h2>\n" + memory_bars(forecast);
  html += "<h2>One step</h2>\n" + step_bars(forecast.step);
  html += "<h2>Scaling</h2>\n" + scaling_chart(scaling);
  html += "<h2>Cost of the run, dollars</h2>\n" + cost_bars(forecast.cost);
  return html + "<h2>All figures</h2>\n<pre>" + escape_html(forecast_text(forecast)) +
         "</pre>\n</main></body></html>\n";
}

}  // namespace litespark::report
