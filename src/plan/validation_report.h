// SPDX-License-Identifier: Apache-2.0
// A validation for people and for programs. Nothing is left out silently: every excluded row comes with its reason.
#pragma once

#include <string>

#include "plan/validation.h"

namespace litespark {

/// Errors by source and metric, then by metric over all sources, the factors, the excluded rows.
std::string validation_text(const Validation& validation);

/// One object: "fit", "slowness", "step_time", "memory", "energy", "bandwidth", "other", "per_source", "exclusions",
/// "notes". Each summary has "n", "excluded", "median_abs_error_percent", "p90_abs_error_percent",
/// "max_abs_error_percent", "signed_bias_percent" and "most_under_percent"; one of a source is over all its rows, with
/// the same by metric inside.
std::string validation_json(const Validation& validation);

}  // namespace litespark
