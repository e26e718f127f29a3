// SPDX-License-Identifier: Apache-2.0
#include "core/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/hex_text.h"

namespace litespark {

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += "\\u00" + hex_text(std::as_bytes(std::span(&c, 1)));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

std::string json_number(double value) {
  std::string out;
  append_json_number(out, value);
  return out;
}

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> buffer{};
  const auto [end, status] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  const std::string_view text(buffer.data(), static_cast<size_t>(end - buffer.data()));
  // "3e-04" is how C writes it; people write "3e-4".
  const size_t digits = text.find('e') + 2;
  const bool has_zero = text.find('e') != std::string_view::npos && text[digits] == '0';
  out.append(text.substr(0, has_zero ? digits : text.size()));
  if (has_zero) out.append(text.substr(digits + 1));
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_json_number(std::string& out, int64_t value) {
  std::array<char, 24> buffer{};
  const auto [end, status] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), end);
}

}  // namespace litespark
