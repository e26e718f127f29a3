// SPDX-License-Identifier: Apache-2.0
// Checks of a machine with their outcomes, as a table, as JSON and as one exit code.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"

namespace litespark {

enum class Outcome : uint8_t {
  kPass,
  kNote,      ///< nothing wrong, but worth knowing
  kSkip,      ///< could not be tried here, for the reason given
  kFail,      ///< the program or the system does not do what it should
  kHardware,  ///< bits came back other than they went in: suspect the machine
};
/// "pass", "note", "skip", "FAIL", "HARDWARE".
std::string_view outcome_name(Outcome outcome);

struct Check {
  std::string name;
  Outcome outcome = Outcome::kPass;
  std::string detail;  ///< what was found; numbers with units
};

/// kHardware when any check suspects it, else kCheckFailed when any failed, else kDone.
ExitCode exit_code_of(const std::vector<Check>& checks);
/// Two columns and the details, then one sentence.
std::string checks_text(const std::vector<Check>& checks);
/// {"pass", "checks": [{"name", "outcome", "detail"}]}.
std::string checks_json(const std::vector<Check>& checks);

}  // namespace litespark
