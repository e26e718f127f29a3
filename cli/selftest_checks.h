// SPDX-License-Identifier: Apache-2.0
// The checks of `litespark selftest`: each looks at one part of this machine and says what it found.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "core/check_list.h"
#include "ops/backend.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// What `body` returns; an error becomes a failed check with its message, one of the device a suspicion.
Check guarded(const std::string& name, const std::function<Check()>& body);

/// Program, compiler, libraries; processor, memory, kernel.
Check describe_versions();
Check describe_machine(const Backend& backend);

/// A product of whole numbers with a known result, twenty times.
Check check_known_matmul(Backend& backend, DType compute);
/// A pattern to the device's memory and back.
Check check_memory(Backend& backend);
/// A pattern into a file of `folder`: written, synced, renamed, dropped from the cache, read, hashed.
Check check_disk(const std::filesystem::path& folder);
/// Resume, export, accumulation, packing on a small model; one check each.
std::vector<Check> check_training(Backend& backend, const std::filesystem::path& scratch);
/// CPU: each instruction set that this processor has against the generic code; empty without the CPU backend.
std::vector<Check> check_instruction_sets();
/// CPU: the same bits with one thread and with all; how much faster two are than one. Empty without the CPU backend.
std::vector<Check> check_threads();
/// Which devices tell their energy, and how.
Check check_sensors(bool is_gpu);

}  // namespace litespark::cli
