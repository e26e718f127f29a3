// SPDX-License-Identifier: Apache-2.0
// Where no counter can be read: power = idle + watts per busy core + watts per GiB. A model, so every figure from here
// is labelled estimated.
#pragma once

#include <functional>

#include "meter/energy.h"

namespace litespark {

/// Source of the defaults: Cloud Carbon Footprint, methodology 2021-2024 (cloudcarbonfootprint.org/docs/methodology),
/// averages of server CPUs in the SPECpower database as AWS uses them: 0.74 W a hardware thread at rest and 3.5 W at
/// full load, so 2.76 W above rest; memory 0.392 W per GB = 0.421 W per GiB.
inline constexpr double kIdleWattsPerCore = 0.74;
inline constexpr double kWattsPerBusyCore = 2.76;
inline constexpr double kWattsPerGib = 0.421;

struct CpuModel {
  double idle_watts = 0;
  double watts_per_busy_core = kWattsPerBusyCore;
  double watts_per_gib = kWattsPerGib;
  int num_cores = 1;      ///< hardware threads of the machine
  double memory_gib = 0;  ///< installed
};

/// The defaults for this machine.
CpuModel cpu_model_of_this_machine();

/// User and system time of this process, all threads; nullopt when the system does not say.
std::optional<double> process_cpu_seconds();

/// The processor: idle + watts per busy core, busy cores = CPU time over wall time.
std::unique_ptr<EnergySensor> make_cpu_estimate(
    const CpuModel& model, std::function<std::optional<double>()> cpu_seconds = process_cpu_seconds);

/// The memory: watts per GiB.
std::unique_ptr<EnergySensor> make_memory_estimate(const CpuModel& model);

}  // namespace litespark
