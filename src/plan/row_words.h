// SPDX-License-Identifier: Apache-2.0
// The words that a row of measurements may hold where a prediction goes by them. Without this a unit that nobody knows
// would pass for seconds, and a precision for BF16.
#pragma once

#include <optional>
#include <string>

#include "plan/validation_rows.h"

namespace litespark {

struct UnknownWord {
  const char* column;
  std::string cell;
  std::string expected;  ///< "one of s, ms, us, min"
};

/// The first of unit (by what the metric measures), precision and recompute that is not known. Blank cells are not
/// stated and pass, and so does the unit of a metric that is never predicted.
std::optional<UnknownWord> unknown_word(const ValidationRow& row);

}  // namespace litespark
