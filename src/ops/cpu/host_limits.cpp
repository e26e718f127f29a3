// SPDX-License-Identifier: Apache-2.0
// Reads the affinity mask, cgroup files (v2 and v1), /proc/meminfo and /proc/self/status. Every file may be missing:
// containers differ.
#include "ops/cpu/host_limits.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/system_file.h"

namespace litespark::cpu {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Takes the number at the start of `text` (after blanks) off it.
std::optional<int64_t> take_number(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::optional<int64_t> read_number(const std::string& path) {
  const std::string text = read_file(path);
  std::string_view rest = text;
  return take_number(rest);
}

/// Folders of this process's own cgroup v2 and its ancestors, innermost first.
std::vector<std::string> cgroup_folders() {
  std::ifstream file("/proc/self/cgroup");
  std::vector<std::string> folders;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.erase(path.rfind('/'))) {
      folders.push_back("/sys/fs/cgroup" + path);
    }
  }
  folders.emplace_back("/sys/fs/cgroup");
  return folders;
}

std::optional<int> quota_processors() {
  std::optional<int> least;
  for (const std::string& folder : cgroup_folders()) {
    const auto processors = processors_of_cpu_max(read_file(folder + "/cpu.max"));
    if (processors && (!least || *processors < *least)) least = processors;
  }
  const auto quota = read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto period = read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (!least && quota && period && *quota > 0 && *period > 0) {
    least = static_cast<int>(std::max<int64_t>(1, *quota / *period));
  }
  return least;
}

}  // namespace

std::optional<int> processors_of_cpu_max(std::string_view text) {
  const auto quota = take_number(text);
  const auto period = take_number(text);
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return static_cast<int>(std::clamp<int64_t>(*quota / *period, 1, 1 << 20));
}

std::optional<int64_t> meminfo_bytes(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  if (!text.starts_with(':')) return std::nullopt;
  text.remove_prefix(1);
  const auto kibibytes = take_number(text);
  if (!kibibytes || *kibibytes < 0 || *kibibytes > (INT64_MAX >> 10)) return std::nullopt;
  return *kibibytes * 1024;
}

int64_t memory_stat_bytes(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (line.starts_with(' ')) return std::max<int64_t>(0, take_number(line).value_or(0));
  }
  return 0;
}

int default_threads() {
  // A mask wide enough for machines beyond the 1024 processors of cpu_set_t.
  constexpr int kMaxProcessors = 1 << 14;
  cpu_set_t* mask = CPU_ALLOC(kMaxProcessors);
  const size_t mask_bytes = CPU_ALLOC_SIZE(kMaxProcessors);
  int processors = 1;
  if (mask != nullptr && sched_getaffinity(0, mask_bytes, mask) == 0) processors = CPU_COUNT_S(mask_bytes, mask);
  CPU_FREE(mask);
  if (const auto quota = quota_processors()) processors = std::min(processors, *quota);
  return std::max(processors, 1);
}

std::optional<int64_t> resident_bytes() {
  std::array<char, 8192> buffer;
  return meminfo_bytes(read_system_file("/proc/self/status", buffer), "VmRSS");
}

std::optional<int64_t> available_memory_bytes() {
  auto available = meminfo_bytes(read_file("/proc/meminfo"), "MemAvailable");
  for (const std::string& folder : cgroup_folders()) {
    const auto limit = read_number(folder + "/memory.max");
    const auto used = read_number(folder + "/memory.current");
    if (!limit || !used) continue;
    // File pages are counted as used, yet the kernel gives them up first.
    const std::string stat = read_file(folder + "/memory.stat");
    const int64_t cached = memory_stat_bytes(stat, "inactive_file") + memory_stat_bytes(stat, "active_file");
    const int64_t left = std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - cached));
    if (!available || left < *available) available = left;
  }
  return available;
}

}  // namespace litespark::cpu
