// SPDX-License-Identifier: Apache-2.0
// `litespark plan --validate ROWS.csv`: predictions beside measured rows.
#pragma once

#include <string>

#include "plan/validation.h"

namespace litespark::cli {

struct ValidationRequest {
  std::string rows;      ///< path of the file
  std::string fit_from;  ///< path of the file to fit on; empty: `rows`
  ValidationFit fit = ValidationFit::kScalar;
  bool json = false;
};

/// Prints to standard output. Throws ConfigError when there is no such file, DataError for one that is malformed.
void print_validation(const ValidationRequest& request);

}  // namespace litespark::cli
