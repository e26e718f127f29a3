// SPDX-License-Identifier: Apache-2.0
#include "report/html.h"

#include <algorithm>
#include <cmath>

#include "core/text_table.h"

namespace litespark::report {

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      case '\n':
      case '\t': out += c; break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += "\xef\xbf\xbd";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  const auto row_html = [](const std::vector<std::string>& cells, std::string_view tag) {
    std::string out = "<tr>";
    for (const std::string& cell : cells) {
      out.append("<").append(tag).append(">").append(escape_html(cell)).append("</").append(tag).append(">");
    }
    return out + "</tr>\n";
  };
  std::string out = "<div class=\"wide\"><table>\n<thead>" + row_html(head, "th") + "</thead>\n<tbody>\n";
  for (const auto& row : rows) out += row_html(row, "td");
  return out + "</tbody></table></div>\n";
}

std::string html_bars(const std::vector<Bar>& bars) {
  if (bars.empty()) return "";
  const auto length_of = [](const Bar& bar) { return std::isfinite(bar.amount) ? std::max(bar.amount, 0.0) : 0.0; };
  double sum = 0.0;
  double largest = 0.0;
  for (const Bar& bar : bars) {
    sum += length_of(bar);
    largest = std::max(largest, length_of(bar));
  }
  std::string out = "<table class=\"bars\"><tbody>\n";
  for (const Bar& bar : bars) {
    const double length = largest > 0.0 ? length_of(bar) / largest * 100.0 : 0.0;
    out += "<tr><td>" + escape_html(bar.name) + "</td><td><svg class=\"bar\" viewBox=\"0 0 100 8\" " +
           "preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect width=\"" + fixed_text(length, 2) +
           "\" height=\"8\"/></svg></td><td>" + escape_html(bar.value_text) + "</td><td>" +
           (sum > 0.0 ? fixed_text(length_of(bar) / sum * 100.0, 1) + " %" : "") + "</td></tr>\n";
  }
  return out + "</tbody></table>\n";
}

}  // namespace litespark::report
