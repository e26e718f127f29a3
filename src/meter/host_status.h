// SPDX-License-Identifier: Apache-2.0
// How busy this machine is, all processes together, from /proc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace litespark {

/// Of the whole machine; what the system does not tell is absent.
struct HostStatus {
  std::optional<double> busy_threads;  ///< mean of the interval; absent until there was one
  int num_threads = 1;
  std::optional<int64_t> memory_used_bytes;  ///< total less what the kernel calls available
  std::optional<int64_t> memory_bytes;
};

/// CPU time of all processes since the boot, in seconds, from the text of /proc/stat; nullopt when it is none. Idle
/// time and waiting for disks do not count.
std::optional<double> busy_seconds_in(std::string_view stat);
/// The number of bytes after "KEY:" in the text of /proc/meminfo, which counts in kB.
std::optional<int64_t> memory_bytes_in(std::string_view meminfo, std::string_view key);

class HostStatusReader {
 public:
  explicit HostStatusReader(std::filesystem::path proc = "/proc") : proc_(std::move(proc)) {}

  /// CPU time of the whole machine, all processes; for make_cpu_estimate.
  std::optional<double> busy_seconds() const;
  /// `now_seconds` is monotonic; busy threads are those since the call before.
  HostStatus read(double now_seconds);

 private:
  std::filesystem::path proc_;
  std::optional<double> last_busy_;
  double last_seconds_ = 0;
};

}  // namespace litespark
