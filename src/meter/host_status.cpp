// SPDX-License-Identifier: Apache-2.0
#include "meter/host_status.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace litespark {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The next number after blanks; moves `text` past it.
std::optional<int64_t> take_number(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

}  // namespace

std::optional<double> busy_seconds_in(std::string_view stat) {
  constexpr std::string_view kStart = "cpu ";
  if (!stat.starts_with(kStart)) return std::nullopt;
  stat.remove_prefix(kStart.size());
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
  std::array<int64_t, 8> ticks{};
  for (int64_t& value : ticks) {
    const auto number = take_number(stat);
    if (!number) return std::nullopt;
    value = *number;
  }
  const int64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return static_cast<double>(busy) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::optional<int64_t> memory_bytes_in(std::string_view meminfo, std::string_view key) {
  const std::string opening = std::string(key) + ":";
  for (size_t start = 0; start < meminfo.size();) {
    const size_t end = std::min(meminfo.find('\n', start), meminfo.size());
    std::string_view line = meminfo.substr(start, end - start);
    start = end + 1;
    if (!line.starts_with(opening)) continue;
    line.remove_prefix(opening.size());
    const auto kilobytes = take_number(line);
    return kilobytes ? std::optional(*kilobytes * 1024) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> HostStatusReader::busy_seconds() const {
  return busy_seconds_in(text_of(proc_ / "stat"));
}

HostStatus HostStatusReader::read(double now_seconds) {
  HostStatus status{.busy_threads = {},
                    .num_threads = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))),
                    .memory_used_bytes = {},
                    .memory_bytes = {}};
  const std::optional<double> busy = busy_seconds();
  const std::optional<double> before = std::exchange(last_busy_, busy);
  const double wall = now_seconds - std::exchange(last_seconds_, now_seconds);
  if (busy && before && wall > 0 && *busy >= *before) {
    status.busy_threads = std::min((*busy - *before) / wall, static_cast<double>(status.num_threads));
  }
  const std::string meminfo = text_of(proc_ / "meminfo");
  status.memory_bytes = memory_bytes_in(meminfo, "MemTotal");
  const auto available = memory_bytes_in(meminfo, "MemAvailable");
  if (status.memory_bytes && available) status.memory_used_bytes = *status.memory_bytes - *available;
  return status;
}

}  // namespace litespark
