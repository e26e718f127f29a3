// SPDX-License-Identifier: Apache-2.0
#include "meter/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace litespark {
namespace {

constexpr double kJoulesPerMillijoule = 1e-3;
constexpr double kWattsPerMilliwatt = 1e-3;
constexpr size_t kTextBytes = 96;

/// nvmlMemory_t.
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

/// The library's functions that are needed, with their C signatures; 0 is success.
struct NvmlCalls {
  using Handle = void*;
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Handle*) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*energy)(Handle, unsigned long long*) = nullptr;
  int (*power)(Handle, unsigned*) = nullptr;
  int (*memory)(Handle, NvmlMemory*) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

class Nvml final : public GpuDriver {
 public:
  explicit Nvml(const NvmlCalls& calls) : calls_(calls) {
    unsigned count = 0;
    if (calls_.count(&count) != 0) return;
    for (unsigned i = 0; i < count; ++i) {
      NvmlCalls::Handle handle = nullptr;
      handles_.push_back(calls_.handle(i, &handle) == 0 ? handle : nullptr);
    }
  }

  int num_gpus() const override { return static_cast<int>(handles_.size()); }
  std::optional<std::string> uuid(int index) const override { return text(calls_.uuid, index); }
  std::optional<std::string> board_name(int index) const override { return text(calls_.name, index); }

  std::optional<uint64_t> energy_millijoules(int index) const override {
    unsigned long long value = 0;
    if (handle(index) == nullptr || calls_.energy(handle(index), &value) != 0) return std::nullopt;
    return value;
  }
  std::optional<double> power_watts(int index) const override {
    unsigned milliwatts = 0;
    if (handle(index) == nullptr || calls_.power(handle(index), &milliwatts) != 0) return std::nullopt;
    return kWattsPerMilliwatt * milliwatts;
  }
  std::optional<int64_t> used_bytes(int index) const override {
    NvmlMemory memory;
    if (handle(index) == nullptr || calls_.memory(handle(index), &memory) != 0) return std::nullopt;
    return static_cast<int64_t>(memory.used);
  }

 private:
  NvmlCalls::Handle handle(int index) const { return handles_.at(static_cast<size_t>(index)); }

  std::optional<std::string> text(int (*call)(NvmlCalls::Handle, char*, unsigned), int index) const {
    std::array<char, kTextBytes> buffer{};
    if (handle(index) == nullptr || call(handle(index), buffer.data(), kTextBytes - 1) != 0) return std::nullopt;
    return std::string(buffer.data());
  }

  NvmlCalls calls_;
  std::vector<NvmlCalls::Handle> handles_;
};

class GpuSensor final : public EnergySensor {
 public:
  GpuSensor(std::shared_ptr<const GpuDriver> driver, int index, const std::string& uuid)
      : driver_(std::move(driver)),
        index_(index),
        device_("gpu " + uuid),
        has_counter_(driver_->energy_millijoules(index).has_value()) {}

  std::string device() const override { return device_; }
  EnergyPart part() const override { return EnergyPart::kGpu; }

  EnergyReading read(double now_seconds) override {
    if (has_counter_) {
      const std::optional<uint64_t> millijoules = track_.advance(driver_->energy_millijoules(index_));
      if (!millijoules) return {};
      return {.joules = kJoulesPerMillijoule * static_cast<double>(*millijoules), .method = EnergyMethod::kCounter};
    }
    const std::optional<double> joules = integral_.advance(now_seconds, driver_->power_watts(index_));
    if (!joules) return {};
    return {.joules = joules, .method = EnergyMethod::kIntegrated};
  }

 private:
  std::shared_ptr<const GpuDriver> driver_;
  int index_;
  std::string device_;
  bool has_counter_;
  CounterTrack track_;
  PowerIntegral integral_;
};

class SilentSensor final : public EnergySensor {
 public:
  SilentSensor(std::string device, EnergyPart part) : device_(std::move(device)), part_(part) {}
  std::string device() const override { return device_; }
  EnergyPart part() const override { return part_; }
  EnergyReading read(double) override { return {}; }

 private:
  std::string device_;
  EnergyPart part_;
};

/// Ordinals mean the driver's order only when CUDA was told so or cannot tell the boards apart.
bool is_order_known(const GpuDriver& driver, const std::optional<std::string>& device_order) {
  if (device_order == "PCI_BUS_ID") return true;
  for (int i = 1; i < driver.num_gpus(); ++i) {
    if (driver.board_name(i) != driver.board_name(0)) return false;
  }
  return true;
}

/// The board that one entry means; nullopt: none.
std::optional<std::string> board_of(const GpuDriver& driver, std::string_view entry) {
  int ordinal = -1;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
  if (error == std::errc() && end == entry.data() + entry.size()) {
    return ordinal >= 0 && ordinal < driver.num_gpus() ? driver.uuid(ordinal) : std::nullopt;
  }
  if (!entry.starts_with("GPU-")) return std::nullopt;
  for (int i = 0; i < driver.num_gpus(); ++i) {
    std::optional<std::string> uuid = driver.uuid(i);
    if (uuid && uuid->starts_with(entry)) return uuid;
  }
  return std::nullopt;
}

std::optional<int> index_of(const GpuDriver& driver, const std::string& uuid) {
  for (int i = 0; i < driver.num_gpus(); ++i) {
    if (driver.uuid(i) == uuid) return i;
  }
  return std::nullopt;
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> entries;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view entry = text.substr(0, comma);
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    entries.push_back(entry);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return entries;
}

}  // namespace

std::shared_ptr<const GpuDriver> open_nvml() {
  // Stays loaded until the process ends: the driver's handles live in it.
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  NvmlCalls calls;
  const bool is_complete =
      find(library, "nvmlInit_v2", calls.init) && find(library, "nvmlDeviceGetCount_v2", calls.count) &&
      find(library, "nvmlDeviceGetHandleByIndex_v2", calls.handle) && find(library, "nvmlDeviceGetUUID", calls.uuid) &&
      find(library, "nvmlDeviceGetName", calls.name) &&
      find(library, "nvmlDeviceGetTotalEnergyConsumption", calls.energy) &&
      find(library, "nvmlDeviceGetPowerUsage", calls.power) && find(library, "nvmlDeviceGetMemoryInfo", calls.memory);
  if (!is_complete || calls.init() != 0) return nullptr;
  return std::make_shared<Nvml>(calls);
}

std::optional<std::vector<std::string>> visible_gpus(const GpuDriver& driver,
                                                     const std::optional<std::string>& visible_devices,
                                                     const std::optional<std::string>& device_order) {
  std::string list;
  if (visible_devices) {
    list = *visible_devices;
  } else {
    for (int i = 0; i < driver.num_gpus(); ++i) list += (i == 0 ? "" : ",") + std::to_string(i);
  }
  std::vector<std::string> uuids;
  for (const std::string_view entry : split_at_commas(list)) {
    const bool is_ordinal = !entry.empty() && entry.front() >= '0' && entry.front() <= '9';
    if (is_ordinal && !is_order_known(driver, device_order)) return std::nullopt;
    const std::optional<std::string> uuid = board_of(driver, entry);
    if (!uuid) break;
    if (std::find(uuids.begin(), uuids.end(), *uuid) == uuids.end()) uuids.push_back(*uuid);
  }
  return uuids;
}

std::optional<std::vector<std::string>> visible_gpus_here(const GpuDriver& driver) {
  const auto environment = [](const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  return visible_gpus(driver, environment("CUDA_VISIBLE_DEVICES"), environment("CUDA_DEVICE_ORDER"));
}

std::optional<int64_t> gpu_used_bytes(const GpuDriver& driver, const std::string& uuid) {
  const std::optional<int> index = index_of(driver, uuid);
  return index ? driver.used_bytes(*index) : std::nullopt;
}

std::vector<std::unique_ptr<EnergySensor>> make_gpu_sensors(const std::shared_ptr<const GpuDriver>& driver,
                                                            const std::vector<std::string>& uuids) {
  std::vector<std::unique_ptr<EnergySensor>> sensors;
  for (const std::string& uuid : uuids) {
    if (const std::optional<int> index = index_of(*driver, uuid)) {
      sensors.push_back(std::make_unique<GpuSensor>(driver, *index, uuid));
    } else {
      sensors.push_back(make_silent_sensor("gpu " + uuid, EnergyPart::kGpu));
    }
  }
  return sensors;
}

std::unique_ptr<EnergySensor> make_silent_sensor(const std::string& device, EnergyPart part) {
  return std::make_unique<SilentSensor>(device, part);
}

}  // namespace litespark
