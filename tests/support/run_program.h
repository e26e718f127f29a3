// SPDX-License-Identifier: Apache-2.0
// Runs the real litespark binary and looks at it from outside, as a shell would.
#pragma once

#include <string>
#include <vector>

namespace litespark {

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal when it was killed
  std::string output;
  std::string errors;
};

/// Arguments go in unquoted; standard input is empty. `folder` is where it runs; empty: here.
ProgramResult run_litespark(const std::vector<std::string>& arguments, const std::string& folder = {});

}  // namespace litespark
