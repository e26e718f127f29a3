// SPDX-License-Identifier: Apache-2.0
// SM clock and power of a GPU while a bench runs, through NVML opened at run time; zeros where it is missing.
#pragma once

namespace litespark::bench {

struct GpuReading {
  unsigned sm_clock_mhz = 0;
  double power_watts = 0;
};

class GpuMonitor {
 public:
  GpuMonitor();
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  /// Of device 0.
  GpuReading read() const;

 private:
  using GetClock = int (*)(void*, int, unsigned*);
  using GetPower = int (*)(void*, unsigned*);

  void* library_ = nullptr;
  void* device_ = nullptr;
  GetClock get_clock_ = nullptr;
  GetPower get_power_ = nullptr;
};

}  // namespace litespark::bench
