// SPDX-License-Identifier: Apache-2.0
#include "meter/gpu_status.h"

#include <dlfcn.h>

#include <array>
#include <sstream>
#include <utility>

namespace litespark {
namespace {

constexpr size_t kTextBytes = 96;

/// The library's enumerations and structures, as its API reference gives them.
constexpr int kSmClock = 1;
constexpr int kMemoryClock = 2;
constexpr int kGpuTemperature = 0;
constexpr int kPcieSent = 0;
constexpr int kPcieReceived = 1;
struct Utilization {
  unsigned gpu_percent;
  unsigned memory_percent;
};
struct MemoryInfo {
  unsigned long long total, free, used;
};

using Handle = void*;
template <class... Arguments>
using Call = int (*)(Handle, Arguments...);

class Nvml final : public GpuStatusReader {
 public:
  /// Only the first three functions are needed; others may be missing in old drivers.
  bool open() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return false;
    int (*init)() = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*handle_of)(unsigned, Handle*) = nullptr;
    if (!find("nvmlInit_v2", init) || !find("nvmlDeviceGetCount_v2", count) ||
        !find("nvmlDeviceGetHandleByIndex_v2", handle_of) || init() != 0) {
      return false;
    }
    unsigned num_boards = 0;
    if (count(&num_boards) != 0) return false;
    for (unsigned i = 0; i < num_boards; ++i) {
      Handle handle = nullptr;
      if (handle_of(i, &handle) == 0) handles_.push_back(handle);
    }
    find("nvmlDeviceGetUUID", uuid_);
    find("nvmlDeviceGetName", name_);
    find("nvmlDeviceGetPowerUsage", power_);
    find("nvmlDeviceGetEnforcedPowerLimit", power_limit_);
    find("nvmlDeviceGetClockInfo", clock_);
    find("nvmlDeviceGetTemperature", temperature_);
    find("nvmlDeviceGetUtilizationRates", utilization_);
    find("nvmlDeviceGetMemoryInfo", memory_);
    find("nvmlDeviceGetCurrentClocksThrottleReasons", slow_reasons_);
    find("nvmlDeviceGetPcieThroughput", pcie_);
    return true;
  }

  std::vector<GpuStatus> read() const override {
    std::vector<GpuStatus> all;
    for (const Handle handle : handles_) all.push_back(status_of(handle));
    return all;
  }

 private:
  template <class Function>
  bool find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    return function != nullptr;
  }

  static std::string text(Call<char*, unsigned> call, Handle handle) {
    std::array<char, kTextBytes> buffer{};
    return call != nullptr && call(handle, buffer.data(), kTextBytes - 1) == 0 ? buffer.data() : "unknown";
  }

  template <class Function, class... Arguments>
  static std::optional<double> number(double factor, Function call, Handle handle, Arguments... arguments) {
    unsigned value = 0;
    if (call == nullptr || call(handle, arguments..., &value) != 0) return std::nullopt;
    return factor * value;
  }

  GpuStatus status_of(Handle handle) const {
    GpuStatus status{.uuid = text(uuid_, handle),
                     .name = text(name_, handle),
                     .power_watts = number(1e-3, power_, handle),
                     .power_limit_watts = number(1e-3, power_limit_, handle),
                     .sm_clock_mhz = number(1, clock_, handle, kSmClock),
                     .memory_clock_mhz = number(1, clock_, handle, kMemoryClock),
                     .temperature_celsius = number(1, temperature_, handle, kGpuTemperature),
                     .busy_share = {},
                     .memory_used_bytes = {},
                     .memory_bytes = {},
                     .slow_reasons = {},
                     .pcie_sent_bytes_per_second = number(1024, pcie_, handle, kPcieSent),
                     .pcie_received_bytes_per_second = number(1024, pcie_, handle, kPcieReceived)};
    Utilization utilization{};
    if (utilization_ != nullptr && utilization_(handle, &utilization) == 0) {
      status.busy_share = 0.01 * utilization.gpu_percent;
    }
    MemoryInfo memory{};
    if (memory_ != nullptr && memory_(handle, &memory) == 0) {
      status.memory_used_bytes = static_cast<int64_t>(memory.used);
      status.memory_bytes = static_cast<int64_t>(memory.total);
    }
    unsigned long long bits = 0;
    if (slow_reasons_ != nullptr && slow_reasons_(handle, &bits) == 0) status.slow_reasons = slow_reason_names(bits);
    return status;
  }

  void* library_ = nullptr;
  std::vector<Handle> handles_;
  Call<char*, unsigned> uuid_ = nullptr;
  Call<char*, unsigned> name_ = nullptr;
  Call<unsigned*> power_ = nullptr;
  Call<unsigned*> power_limit_ = nullptr;
  Call<int, unsigned*> clock_ = nullptr;
  Call<int, unsigned*> temperature_ = nullptr;
  Call<Utilization*> utilization_ = nullptr;
  Call<MemoryInfo*> memory_ = nullptr;
  Call<unsigned long long*> slow_reasons_ = nullptr;
  Call<int, unsigned*> pcie_ = nullptr;
};

constexpr std::array<std::pair<uint64_t, const char*>, 9> kReasons = {{{0x1, "idle"},
                                                                       {0x2, "clocks set by an application"},
                                                                       {0x4, "power limit"},
                                                                       {0x8, "hardware slowdown"},
                                                                       {0x10, "sync boost"},
                                                                       {0x20, "temperature (driver)"},
                                                                       {0x40, "temperature (hardware)"},
                                                                       {0x80, "power brake"},
                                                                       {0x100, "display clock"}}};

}  // namespace

std::unique_ptr<const GpuStatusReader> open_gpu_status() {
  auto reader = std::make_unique<Nvml>();
  if (!reader->open()) return nullptr;
  return reader;
}

std::vector<std::string> slow_reason_names(uint64_t bits) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : kReasons) {
    if ((bits & bit) != 0) names.emplace_back(name);
    bits &= ~bit;
  }
  if (bits != 0) {
    std::ostringstream rest;
    rest << "reason 0x" << std::hex << bits;
    names.push_back(rest.str());
  }
  return names;
}

}  // namespace litespark
