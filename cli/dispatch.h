// SPDX-License-Identifier: Apache-2.0
// From the words after `litespark` to a finished command.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"

namespace litespark::cli {

/// Runs what `arguments` (without the program's name) ask for. Throws Error.
ExitCode dispatch(const std::vector<std::string>& arguments);

}  // namespace litespark::cli
