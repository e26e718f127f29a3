// SPDX-License-Identifier: Apache-2.0
#include "report/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/text_table.h"
#include "report/axis.h"
#include "report/html.h"
#include "report/number_text.h"

namespace litespark::report {
namespace {

// In units of the drawing, which the page scales to its column.
constexpr double kWidth = 640.0;
constexpr double kHeight = 270.0;
constexpr double kLeft = 58.0;
constexpr double kRight = 626.0;
constexpr double kTop = 30.0;
constexpr double kBottom = 234.0;
/// More points than pixels only make the page heavy.
constexpr size_t kMostPoints = 1200;

struct Frame {
  Axis x;
  Axis y;

  double x_of(double value) const { return kLeft + x.place_of(value) * (kRight - kLeft); }
  double y_of(double value) const { return kBottom - y.place_of(value) * (kBottom - kTop); }
};

Frame frame_of(const LineChart& chart) {
  double low_x = std::numeric_limits<double>::infinity();
  double low_y = low_x;
  double high_x = -low_x;
  double high_y = -low_x;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (!std::isfinite(point.y)) continue;
      low_x = std::min(low_x, point.x);
      high_x = std::max(high_x, point.x);
      low_y = std::min(low_y, point.y);
      high_y = std::max(high_y, point.y);
    }
  }
  return {.x = make_axis(low_x, high_x, {.num_ticks = 7, .is_padded = false, .has_whole_ticks = true}),
          .y = make_axis(low_y, high_y, {.num_ticks = 5, .starts_at_zero = chart.starts_at_zero})};
}

std::string coordinate(double value) {
  return fixed_text(value, 1);
}

std::string grid(const LineChart& chart, const Frame& frame) {
  std::string out;
  for (const Tick& tick : frame.y.ticks) {
    const std::string y = coordinate(frame.y_of(tick.value));
    out += "<path class=\"grid\" d=\"M" + coordinate(kLeft) + " " + y + "H" + coordinate(kRight) + "\"/><text x=\"" +
           coordinate(kLeft - 8) + "\" y=\"" + y + "\" dy=\"4\" text-anchor=\"end\">" + escape_html(tick.text) +
           "</text>\n";
  }
  for (const Tick& tick : frame.x.ticks) {
    const std::string x = coordinate(frame.x_of(tick.value));
    out += "<path class=\"axis\" d=\"M" + x + " " + coordinate(kBottom) + "v4\"/><text x=\"" + x + "\" y=\"" +
           coordinate(kBottom + 18) + "\" text-anchor=\"middle\">" + escape_html(tick.text) + "</text>\n";
  }
  return out + "<path class=\"axis\" d=\"M" + coordinate(kLeft) + " " + coordinate(kBottom) + "H" + coordinate(kRight) +
         "\"/><text x=\"" + coordinate(kRight) + "\" y=\"" + coordinate(kHeight - 4) + "\" text-anchor=\"end\">" +
         escape_html(chart.x_name) + "</text><text x=\"" + coordinate(kLeft - 8) + "\" y=\"" + coordinate(kTop - 14) +
         "\" text-anchor=\"" + (chart.unit.size() > 8 ? "start" : "end") + "\">" + escape_html(chart.unit) +
         "</text>\n";
}

/// Runs of finite points, each a subpath; a lone point becomes a line of length 0, which round caps make a dot.
std::string path_data(const std::vector<ChartPoint>& points, const Frame& frame) {
  std::string out;
  bool is_open = false;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].y)) {
      is_open = false;
      continue;
    }
    const std::string place = coordinate(frame.x_of(points[i].x)) + " " + coordinate(frame.y_of(points[i].y));
    out += (is_open ? "L" : "M") + place;
    const bool is_alone = !is_open && (i + 1 == points.size() || !std::isfinite(points[i + 1].y));
    if (is_alone) out += "L" + place;
    is_open = true;
  }
  return out;
}

std::string series_group(const ChartSeries& series, const Frame& frame) {
  const std::vector<ChartPoint> points = thinned(series.points, kMostPoints);
  std::string xs;
  std::string ys;
  std::string dots;
  for (const ChartPoint& point : points) {
    if (!std::isfinite(point.y)) continue;
    xs += (xs.empty() ? "" : ",") + number_plain(point.x);
    ys += (ys.empty() ? "" : ",") + number_plain(point.y);
    if (series.has_markers) {
      dots += "<circle cx=\"" + coordinate(frame.x_of(point.x)) + "\" cy=\"" + coordinate(frame.y_of(point.y)) +
              "\" r=\"4\"/>";
    }
  }
  return "<g class=\"series " + escape_html(series.style) + "\" data-name=\"" + escape_html(series.name) +
         "\" data-xs=\"" + xs + "\" data-ys=\"" + ys + "\"><path d=\"" + path_data(points, frame) + "\"/>" + dots +
         "</g>\n";
}

std::string legend(const LineChart& chart) {
  if (chart.series.size() < 2) return "";
  std::string out = "<span class=\"legend\">";
  for (const ChartSeries& series : chart.series) {
    out += "<span><i class=\"" + escape_html(series.style) + "\"></i>" + escape_html(series.name) + "</span>";
  }
  return out + "</span>";
}

}  // namespace

bool has_values(const LineChart& chart) {
  return std::any_of(chart.series.begin(), chart.series.end(), [](const ChartSeries& series) {
    return std::any_of(series.points.begin(), series.points.end(),
                       [](const ChartPoint& point) { return std::isfinite(point.y); });
  });
}

std::string line_chart_html(const LineChart& chart) {
  if (!has_values(chart)) throw InternalError("line_chart", "nothing to draw in " + chart.title);
  const Frame frame = frame_of(chart);
  std::string out = "<figure class=\"chart\"><figcaption>" + escape_html(chart.title) + legend(chart) +
                    "</figcaption>\n<svg class=\"chart\" role=\"img\" aria-label=\"" + escape_html(chart.title) +
                    "\" viewBox=\"0 0 " + fixed_text(kWidth, 0) + " " + fixed_text(kHeight, 0) + "\" data-left=\"" +
                    fixed_text(kLeft, 0) + "\" data-right=\"" + fixed_text(kRight, 0) + "\" data-low=\"" +
                    number_plain(frame.x.low) + "\" data-high=\"" + number_plain(frame.x.high) + "\" data-xname=\"" +
                    escape_html(chart.x_name) + "\">\n" + grid(chart, frame) + "<path class=\"rule\" d=\"M0 " +
                    coordinate(kTop) + "V" + coordinate(kBottom) + "\"/>\n";
  for (const ChartSeries& series : chart.series) out += series_group(series, frame);
  return out + "</svg><div class=\"tip\"></div></figure>\n";
}

std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, size_t most) {
  if (points.size() <= most || most < 2) return points;
  const size_t num_stretches = most / 2;
  std::vector<ChartPoint> out;
  for (size_t i = 0; i < num_stretches; ++i) {
    const auto first = points.begin() + static_cast<std::ptrdiff_t>(points.size() * i / num_stretches);
    const auto last = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (i + 1) / num_stretches);
    auto low = last;
    auto high = last;
    for (auto point = first; point != last; ++point) {
      if (!std::isfinite(point->y)) continue;
      if (low == last || point->y < low->y) low = point;
      if (high == last || point->y > high->y) high = point;
    }
    if (low == last) {
      out.push_back(*first);
    } else {
      out.push_back(*std::min(low, high));
      if (low != high) out.push_back(*std::max(low, high));
    }
  }
  if (out.back().x != points.back().x) out.push_back(points.back());
  return out;
}

}  // namespace litespark::report
