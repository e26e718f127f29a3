// SPDX-License-Identifier: Apache-2.0
// Escapes byte by byte; bytes past ASCII pass, so that names in other scripts stay readable, but for U+0080 to U+009F:
// terminals obey those as they obey ESC.
#include "core/quote.h"

#include <cstdint>

namespace litespark {
namespace {

struct Escapes {
  bool of_quotes = false;
  bool of_lines = true;
};

void append_escaped(std::string& out, unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

std::string escaped(std::string_view text, Escapes escapes) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      append_escaped(out, byte);
      append_escaped(out, next);
      ++i;
    } else if ((byte < 0x20 || byte == 0x7f) && (escapes.of_lines || byte != '\n')) {
      append_escaped(out, byte);
    } else {
      if (escapes.of_quotes && (byte == '"' || byte == '\\')) out += '\\';
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string quote(std::string_view text, size_t max_bytes) {
  return '"' + escaped(text.substr(0, max_bytes), {.of_quotes = true}) + (text.size() > max_bytes ? "...\"" : "\"");
}

std::string plain_text(std::string_view text) {
  return escaped(text, {});
}

std::string plain_lines(std::string_view text) {
  return escaped(text, {.of_lines = false});
}

}  // namespace litespark
