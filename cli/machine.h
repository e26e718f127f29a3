// SPDX-License-Identifier: Apache-2.0
// What this program and this machine are, as name and value: for manifests and for `litespark selftest`.
#pragma once

#include <map>
#include <string>

#include "ops/backend.h"

namespace litespark::cli {

/// Program, compiler, and the libraries of the linked backends.
std::map<std::string, std::string> program_versions();

/// Of this machine in its network; "?" where the system does not say.
std::string host_name();

/// Device, processor, threads, memory, kernel.
std::map<std::string, std::string> machine_facts(const Backend& backend);

}  // namespace litespark::cli
