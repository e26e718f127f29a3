// SPDX-License-Identifier: Apache-2.0
// How OpenMP's threads wait for work: awake for a moment, then asleep. The library reads that from the environment
// while it is being loaded, before main(), so a program that wants it otherwise must start once more.
#pragma once

#include <string>
#include <vector>

namespace litespark::cli {

/// Starts the program again, as the same process, with the waiting set; returns when the user has set it, when that has
/// been done already, or when it cannot be done. `arguments`: all words after the program's own.
void settle_thread_waiting(const std::vector<std::string>& arguments);

}  // namespace litespark::cli
