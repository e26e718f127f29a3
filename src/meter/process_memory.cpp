// SPDX-License-Identifier: Apache-2.0
#include "meter/process_memory.h"

#include <malloc.h>

#include <array>
#include <charconv>

#include "core/system_file.h"

namespace litespark {
namespace {

/// Bytes of a line "VmRSS:      123 kB".
std::optional<int64_t> status_bytes(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  const size_t digits = text.find_first_not_of(": \t");
  if (digits == std::string_view::npos) return std::nullopt;
  int64_t kibibytes = 0;
  const std::string_view number = text.substr(digits);
  if (std::from_chars(number.data(), number.data() + number.size(), kibibytes).ec != std::errc()) return std::nullopt;
  return kibibytes * 1024;
}

}  // namespace

std::optional<ProcessMemory> parse_process_status(std::string_view text) {
  const std::optional<int64_t> resident = status_bytes(text, "VmRSS");
  if (!resident) return std::nullopt;
  return ProcessMemory{
      .resident_bytes = *resident,
      .anonymous_bytes = status_bytes(text, "RssAnon").value_or(*resident),
      .file_bytes = status_bytes(text, "RssFile").value_or(0) + status_bytes(text, "RssShmem").value_or(0),
      .heap_used_bytes = std::nullopt,
      .heap_free_bytes = std::nullopt};
}

std::optional<ProcessMemory> process_memory() {
  std::array<char, 8192> buffer;
  std::optional<ProcessMemory> memory = parse_process_status(read_system_file("/proc/self/status", buffer));
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  if (memory) {
    const struct mallinfo2 heap = mallinfo2();
    memory->heap_used_bytes = static_cast<int64_t>(heap.uordblks + heap.hblkhd);
    memory->heap_free_bytes = static_cast<int64_t>(heap.fordblks);
  }
#endif
  return memory;
}

}  // namespace litespark
