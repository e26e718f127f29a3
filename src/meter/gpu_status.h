// SPDX-License-Identifier: Apache-2.0
// What NVIDIA GPUs do at this moment: power, clocks and why they are low, memory, PCIe. Looked at from outside, through
// the driver's management library; reading disturbs no run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace litespark {

/// Of one board; what the driver does not tell is absent.
struct GpuStatus {
  std::string uuid;
  std::string name;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;  ///< in force
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_celsius;
  std::optional<double> busy_share;  ///< 0 to 1: of the last moments, with any kernel running
  std::optional<int64_t> memory_used_bytes;
  std::optional<int64_t> memory_bytes;
  std::optional<std::vector<std::string>> slow_reasons;  ///< empty: nothing holds the clocks down
  std::optional<double> pcie_sent_bytes_per_second;      ///< from the board
  std::optional<double> pcie_received_bytes_per_second;  ///< by the board
};

/// Looks at all boards; a test puts its own here.
class GpuStatusReader {
 public:
  virtual ~GpuStatusReader() = default;
  virtual std::vector<GpuStatus> read() const = 0;
};

/// nullptr where the driver's library is not installed or does not start.
std::unique_ptr<const GpuStatusReader> open_gpu_status();

/// The words for the bits of nvmlDeviceGetCurrentClocksThrottleReasons (NVML API reference, clocksEventReasons); bits
/// that it does not name appear as a number.
std::vector<std::string> slow_reason_names(uint64_t bits);

}  // namespace litespark
