// SPDX-License-Identifier: Apache-2.0
// Text from files inside messages and tables: unable to steer a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace litespark {

/// The text in double quotes, quotes and control characters escaped; of longer texts the first `max_bytes` and
/// "...".
std::string quote(std::string_view text, size_t max_bytes = 120);

/// The text as it is, but for control characters and line ends, which are escaped: for names inside a line.
std::string plain_text(std::string_view text);

/// The same with its line ends: for whole messages.
std::string plain_lines(std::string_view text);

}  // namespace litespark
