// SPDX-License-Identifier: Apache-2.0
// JSON from files that nobody vouches for: sizes are limited before anything is built, and what parsers disagree about
// (duplicate keys, huge numbers, broken UTF-8) is refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace litespark {

struct JsonLimits {
  int64_t max_bytes = int64_t{16} << 20;
  int64_t max_depth = 64;
  int64_t max_values = 500000;                 ///< values, object keys included
  int64_t max_token_bytes = int64_t{1} << 20;  ///< one string, number or run of blanks, as written
};

/// Numbers beyond this magnitude are refused, as are integers beyond 63 bits: nothing that we read has a use for them.
inline constexpr double kMaxJsonMagnitude = 1e300;

/// One pass without memory or recursion; throws DataError past a limit. The text may still be invalid JSON.
void check_json_limits(std::string_view text, std::string_view where, const JsonLimits& limits);

/// Refused with a DataError that starts with `where`: limits exceeded, syntax errors, invalid UTF-8, lone surrogates,
/// duplicate keys, NaN, numbers out of range.
nlohmann::json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});

/// parse_json of a whole file; IoError when it cannot be read.
nlohmann::json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

}  // namespace litespark
