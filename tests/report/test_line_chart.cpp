// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "report/line_chart.h"
#include "support/error_text.h"

namespace litespark::report {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

LineChart chart_of(std::vector<ChartPoint> points) {
  return {.title = "Loss", .series = {{.name = "training", .points = std::move(points)}}};
}

/// The d attribute of the first series' path.
std::string path_of(const std::string& html) {
  const size_t group = html.find("class=\"series");
  const size_t start = html.find(" d=\"", group) + 4;
  return html.substr(start, html.find('"', start) - start);
}

int64_t count(const std::string& text, char c) {
  return std::count(text.begin(), text.end(), c);
}

TEST(LineChart, DrawsALineThroughItsPointsAndKeepsTheirValues) {
  const std::string html = line_chart_html(chart_of({{1, 8.5}, {2, 6.25}, {3, 5}}));
  EXPECT_EQ(count(path_of(html), 'M'), 1);
  EXPECT_EQ(count(path_of(html), 'L'), 2);
  EXPECT_TRUE(contains(html, "data-xs=\"1,2,3\" data-ys=\"8.5,6.25,5\""));
  EXPECT_TRUE(path_of(html).starts_with("M58.0 "));
}

TEST(LineChart, WhatIsMissingIsAGapAndNeverZero) {  // fault:F1
  const std::string html = line_chart_html(chart_of({{1, 8}, {2, 7}, {3, kGap}, {4, 5}}));
  EXPECT_EQ(count(path_of(html), 'M'), 2);
  EXPECT_TRUE(contains(html, "data-xs=\"1,2,4\" data-ys=\"8,7,5\""));
}

TEST(LineChart, ALonePointIsDrawnAsADot) {
  const std::string path = path_of(line_chart_html(chart_of({{7, 3}})));
  EXPECT_EQ(count(path, 'L'), 1) << path;
}

TEST(LineChart, WithoutAnyValueThereIsNothingToDraw) {
  EXPECT_FALSE(has_values(chart_of({})));
  EXPECT_FALSE(has_values(chart_of({{1, kGap}, {2, std::numeric_limits<double>::infinity()}})));
  EXPECT_TRUE(contains(error_text<InternalError>([] { line_chart_html(chart_of({{1, kGap}})); }), "nothing to draw"));
}

TEST(LineChart, NamesAreEscapedAndTheLegendComesWithASecondSeries) {
  LineChart chart = chart_of({{1, 2}, {2, 3}});
  chart.title = "<b>\"";
  EXPECT_EQ(line_chart_html(chart).find("class=\"legend\""), std::string::npos);
  chart.series.push_back({.name = "\"><script>", .points = {{2, 1}}, .style = "second", .has_markers = true});
  const std::string html = line_chart_html(chart);
  EXPECT_TRUE(contains(html, "&lt;b&gt;&quot;"));
  EXPECT_TRUE(contains(html, "data-name=\"&quot;&gt;&lt;script&gt;\""));
  EXPECT_TRUE(contains(html, "class=\"legend\""));
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_TRUE(contains(html, "<circle"));
}

TEST(LineChart, ThinningKeepsSpikesGapsAndTheLastPoint) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), i == 54321 ? 99.0 : 1.0});
  for (int i = 20000; i < 30000; ++i) points[static_cast<size_t>(i)].y = kGap;
  const std::vector<ChartPoint> thin = thinned(points, 1000);
  EXPECT_LE(thin.size(), 1001U);
  const auto has = [&](auto&& is) { return std::any_of(thin.begin(), thin.end(), is); };
  EXPECT_TRUE(has([](const ChartPoint& point) { return point.x == 54321.0 && point.y == 99.0; }));
  EXPECT_TRUE(has([](const ChartPoint& point) { return !std::isfinite(point.y); }));
  EXPECT_EQ(thin.back().x, 99999.0);
  EXPECT_TRUE(std::is_sorted(thin.begin(), thin.end(), [](const auto& a, const auto& b) { return a.x < b.x; }));
  EXPECT_EQ(thinned(thin, 5000).size(), thin.size());
}

}  // namespace
}  // namespace litespark::report
