// SPDX-License-Identifier: Apache-2.0
// Text from files inside messages: short, in quotes, and unable to steer a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace litespark {

/// The text in double quotes, quotes and control characters escaped; of longer texts the first `max_bytes` and
/// "...".
std::string quote(std::string_view text, size_t max_bytes = 120);

}  // namespace litespark
