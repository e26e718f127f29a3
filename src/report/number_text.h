// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them on a page: few digits, thousands as k, M, G, T.
#pragma once

#include <string>

namespace litespark::report {

/// At most `digits` significant digits, no trailing zeros: "0.3", "12.5k", "3e-4", "0"; k, M, G,
/// T from `smallest_in_units` (1,000 or more) on; "not a number" and "infinite"
/// are said in words.
std::string number_text(double value, int digits = 4, double smallest_in_units = 1e4);

/// Shortest text that reads back as the same number, for scripts: "400", "0.1". `value` is finite.
std::string number_plain(double value);

/// "850 ms", "12.3 s", "4 min 10 s", "2 h 05 min".
std::string duration_text(double seconds);

}  // namespace litespark::report
