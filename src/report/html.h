// SPDX-License-Identifier: Apache-2.0
// Text that becomes HTML: everything that came from a file or a user passes escape_html, in elements and in attributes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace litespark::report {

/// Safe between tags and inside a quoted attribute: & < > " ' become references; control characters other than line
/// feed and tab, which HTML does not allow, become U+FFFD.
std::string escape_html(std::string_view text);

/// A table of plain text: the head, then rows; cells from the second column on stand to the right.
std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

struct Bar {
  std::string name;
  double amount = 0.0;     ///< decides the bar's length; negative or not finite: no bar
  std::string value_text;  ///< what people read
};

/// A row a bar, lengths relative to the largest, shares of the sum beside them. "" without bars.
std::string html_bars(const std::vector<Bar>& bars);

}  // namespace litespark::report
