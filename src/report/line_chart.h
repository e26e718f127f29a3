// SPDX-License-Identifier: Apache-2.0
// A line chart as inline SVG: axes with round ticks, a legend, and the values in data attributes for the page's
// tooltips. Colours come from the page's style, so that one drawing serves light and dark.
#pragma once

#include <string>
#include <vector>

namespace litespark::report {

struct ChartPoint {
  double x = 0.0;
  double y = 0.0;  ///< not finite: a gap in the line
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  ///< x ascending
  std::string style = "first";     ///< class of the page's style: "first", "second", "faint"
  bool has_markers = false;        ///< a dot at each point
};

struct LineChart {
  std::string title;
  std::string x_name = "step";
  std::string unit;  ///< written above the y axis; may be empty
  std::vector<ChartSeries> series;
  bool starts_at_zero = false;
};

/// Whether any point of the chart can be drawn.
bool has_values(const LineChart& chart);

/// One <figure>; `chart` must have values (InternalError). Every string of it is escaped.
std::string line_chart_html(const LineChart& chart);

/// At most about `most` points: each stretch of points gives its smallest and its largest, so that no spike is
/// lost; the last point stays.
std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t most);

}  // namespace litespark::report
