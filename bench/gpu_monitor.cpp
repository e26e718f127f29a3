// SPDX-License-Identifier: Apache-2.0
#include "gpu_monitor.h"

#include <dlfcn.h>

namespace litespark::bench {
namespace {

constexpr int kSmClock = 1;  // NVML_CLOCK_SM

template <class Function>
Function symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

GpuMonitor::GpuMonitor() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  if (library_ == nullptr) return;
  const auto start = symbol<int (*)()>(library_, "nvmlInit_v2");
  const auto handle = symbol<int (*)(unsigned, void**)>(library_, "nvmlDeviceGetHandleByIndex_v2");
  if (start == nullptr || handle == nullptr || start() != 0 || handle(0, &device_) != 0) return;
  get_clock_ = symbol<GetClock>(library_, "nvmlDeviceGetClockInfo");
  get_power_ = symbol<GetPower>(library_, "nvmlDeviceGetPowerUsage");
}

GpuMonitor::~GpuMonitor() {
  if (library_ != nullptr) dlclose(library_);
}

GpuReading GpuMonitor::read() const {
  GpuReading reading;
  if (get_clock_ != nullptr) get_clock_(device_, kSmClock, &reading.sm_clock_mhz);
  unsigned milliwatts = 0;
  if (get_power_ != nullptr && get_power_(device_, &milliwatts) == 0) reading.power_watts = milliwatts / 1000.0;
  return reading;
}

}  // namespace litespark::bench
