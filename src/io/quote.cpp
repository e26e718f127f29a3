// SPDX-License-Identifier: Apache-2.0
// Escapes byte by byte; bytes past ASCII pass, so that names in other scripts stay readable.
#include "io/quote.h"

#include <fmt/format.h>

namespace litespark {

std::string quote(std::string_view text, size_t max_bytes) {
  std::string result = "\"";
  for (const char c : text.substr(0, max_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      if (c == '"' || c == '\\') result += '\\';
      result += c;
    }
  }
  return result + (text.size() > max_bytes ? "...\"" : "\"");
}

}  // namespace litespark
