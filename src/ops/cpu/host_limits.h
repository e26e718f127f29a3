// SPDX-License-Identifier: Apache-2.0
// What this process may use of the machine: processors (affinity mask, cgroup quota) and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace litespark::cpu {

/// Whole processors in a cgroup v2 cpu.max line ("150000 100000" -> 1, at least 1); nullopt for "max" or nonsense.
std::optional<int> processors_of_cpu_max(std::string_view text);
/// Bytes after `key` in /proc/meminfo's form ("MemAvailable:  123 kB"); nullopt when it is not there.
std::optional<int64_t> meminfo_bytes(std::string_view text, std::string_view key);
/// Bytes after `key` at the start of a line of a cgroup's memory.stat ("inactive_file 4096"); 0 when it is not there.
int64_t memory_stat_bytes(std::string_view text, std::string_view key);

/// Threads to use when the user names none: processors in the affinity mask, no more than the cgroup's quota.
int default_threads();
/// Memory that can be had without swapping, within the cgroup's limit; nullopt when the system does not say.
std::optional<int64_t> available_memory_bytes();
/// Of this process, shared pages included.
std::optional<int64_t> resident_bytes();

}  // namespace litespark::cpu
