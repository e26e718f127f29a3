// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "report/html.h"
#include "support/error_text.h"

namespace litespark::report {
namespace {

TEST(Html, EscapesWhatCouldEndATextOrAnAttribute) {
  EXPECT_EQ(escape_html("<script>alert('1')</script> & \"x\""),
            "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;x&quot;");
  EXPECT_EQ(escape_html("&amp;"), "&amp;amp;");
}

TEST(Html, KeepsUtf8AndLinesAndReplacesControlCharacters) {
  EXPECT_EQ(escape_html("a\n\tü"), "a\n\tü");
  EXPECT_EQ(escape_html(std::string_view("a\0b\x1b\x7f", 5)),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Html, ATablesCellsAreEscaped) {
  const std::string table = html_table({"<h>"}, {{"<c>", "2"}});
  EXPECT_TRUE(contains(table, "<th>&lt;h&gt;</th>"));
  EXPECT_TRUE(contains(table, "<td>&lt;c&gt;</td><td>2</td>"));
}

TEST(Html, BarsAreRelativeToTheLargestAndSharesToTheSum) {
  const std::string bars = html_bars({{"<a>", 3.0, "3 s"}, {"b", 1.0, "1 s"}, {"c", -1.0, "-1 s"}});
  EXPECT_TRUE(contains(bars, "&lt;a&gt;"));
  EXPECT_TRUE(contains(bars, "width=\"100.00\""));
  EXPECT_TRUE(contains(bars, "width=\"33.33\""));
  EXPECT_TRUE(contains(bars, "<td>3 s</td><td>75.0 %</td>"));
  EXPECT_TRUE(contains(bars, "width=\"0.00\""));
}

TEST(Html, BarsOfNothingHaveNoLengthAndNoShare) {
  EXPECT_EQ(html_bars({}), "");
  const std::string bars = html_bars({{"a", 0.0, "0"}, {"b", std::numeric_limits<double>::quiet_NaN(), "?"}});
  EXPECT_EQ(bars.find('%'), std::string::npos);
  EXPECT_EQ(bars.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace litespark::report
