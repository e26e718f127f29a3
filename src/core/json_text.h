// SPDX-License-Identifier: Apache-2.0
// JSON for writers that need no document tree: one escaped string, one number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace litespark {

/// The text in quotes, escaped; bytes above 0x7f pass through, so valid UTF-8 stays valid. The result is a TOML basic
/// string too.
std::string json_string(std::string_view text);
/// The same at the end of `out`, which need not grow when it has the room.
void append_json_string(std::string& out, std::string_view text);

/// Shortest decimal text that reads back as the same double, always with a point or an exponent ("400.0"); "null" for
/// NaN and infinities, which JSON cannot say.
std::string json_number(double value);
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, int64_t value);

}  // namespace litespark
