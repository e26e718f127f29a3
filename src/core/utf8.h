// SPDX-License-Identifier: Apache-2.0
// Whether bytes are text. Paths on Linux are any bytes, but run files, metrics and pages are UTF-8.
#pragma once

#include <string_view>

namespace litespark {

/// Well-formed as RFC 3629 says: shortest forms only, no surrogates, at most U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace litespark
