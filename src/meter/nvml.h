// SPDX-License-Identifier: Apache-2.0
// Energy of NVIDIA GPUs from the driver's management library, loaded at run time. Boards are known by their UUID: the
// ordinals of CUDA and those of the library need not agree.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "meter/energy.h"

namespace litespark {

/// What the driver says; every call answers nullopt when it cannot. A test puts its own boards here.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  virtual int num_gpus() const = 0;
  virtual std::optional<std::string> uuid(int index) const = 0;
  virtual std::optional<std::string> board_name(int index) const = 0;
  /// Since the driver was loaded; boards before Volta have no counter.
  virtual std::optional<uint64_t> energy_millijoules(int index) const = 0;
  virtual std::optional<double> power_watts(int index) const = 0;
  /// Memory of the board that is taken, by whomever.
  virtual std::optional<int64_t> used_bytes(int index) const = 0;
};

/// libnvidia-ml.so.1; nullptr where it is not installed or does not start.
std::shared_ptr<const GpuDriver> open_nvml();

/// The UUIDs behind a CUDA_VISIBLE_DEVICES value (nullopt: unset, all boards), in CUDA's order, each once: ordinals,
/// UUIDs or their beginnings. As CUDA does, the list ends at the first entry that names no board. nullopt: the
/// ordinals' order is CUDA's secret (boards of different kinds without CUDA_DEVICE_ORDER=PCI_BUS_ID).
std::optional<std::vector<std::string>> visible_gpus(const GpuDriver& driver,
                                                     const std::optional<std::string>& visible_devices,
                                                     const std::optional<std::string>& device_order);

/// The same for this process's environment.
std::optional<std::vector<std::string>> visible_gpus_here(const GpuDriver& driver);

/// Memory of the board with this UUID that is taken; nullopt when the driver does not know it or does not say.
std::optional<int64_t> gpu_used_bytes(const GpuDriver& driver, const std::string& uuid);

/// A sensor for each board in `uuids`, by counter or, without one, from power readings. A UUID that the driver does not
/// know gets a sensor that says unavailable.
std::vector<std::unique_ptr<EnergySensor>> make_gpu_sensors(const std::shared_ptr<const GpuDriver>& driver,
                                                            const std::vector<std::string>& uuids);

/// Stands for a device whose energy nobody tells.
std::unique_ptr<EnergySensor> make_silent_sensor(const std::string& device, EnergyPart part);

}  // namespace litespark
