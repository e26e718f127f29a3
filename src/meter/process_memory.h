// SPDX-License-Identifier: Apache-2.0
// What this process holds of the machine's memory, apart by what holds it: the heap in use, the heap kept free, other
// private pages, pages of mapped files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace litespark {

struct ProcessMemory {
  int64_t resident_bytes = 0;
  int64_t anonymous_bytes = 0;  ///< resident and private: heap, stacks, what libraries map
  int64_t file_bytes = 0;       ///< resident pages of mapped files: the page cache's, given back under pressure
  /// Bytes that malloc has given out; nullopt where the C library does not say.
  std::optional<int64_t> heap_used_bytes;
  std::optional<int64_t> heap_free_bytes;  ///< kept by malloc for later
};

/// nullopt where /proc/self/status is not there.
std::optional<ProcessMemory> process_memory();

/// The fields of /proc/self/status's text; nullopt when it has no VmRSS.
std::optional<ProcessMemory> parse_process_status(std::string_view text);

}  // namespace litespark
