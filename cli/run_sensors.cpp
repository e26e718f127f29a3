// SPDX-License-Identifier: Apache-2.0
#include "run_sensors.h"

#include <algorithm>
#include <limits>

#include "meter/cpu_model.h"
#include "meter/nvml.h"
#include "meter/rapl.h"

namespace litespark::cli {
namespace {

CpuModel cpu_model(const MeterSection& settings) {
  CpuModel model = cpu_model_of_this_machine();
  model.idle_watts = settings.cpu_idle_watts.value_or(model.idle_watts);
  model.watts_per_busy_core = settings.cpu_watts_per_core.value_or(model.watts_per_busy_core);
  model.watts_per_gib = settings.watts_per_gib.value_or(model.watts_per_gib);
  return model;
}

Sensors host_sensors(const MeterSection& settings, bool is_first_of_node) {
  Sensors sensors = find_rapl_sensors();
  const auto has = [&](EnergyPart part) {
    return std::any_of(sensors.begin(), sensors.end(), [part](const auto& sensor) { return sensor->part() == part; });
  };
  const bool has_cpu = has(EnergyPart::kCpu);
  CpuModel model = cpu_model(settings);
  if (!is_first_of_node) {
    // The machine at rest is the first rank's; each process has used its own seconds of a core.
    sensors.clear();
    model.idle_watts = 0;
  }
  if (!has_cpu) sensors.push_back(make_cpu_estimate(model));
  if (is_first_of_node && !has(EnergyPart::kRam)) sensors.push_back(make_memory_estimate(model));
  return sensors;
}

/// `count`: boards of the node that the run computes on, the first that are seen.
void add_gpu_sensors(Sensors& sensors, int64_t count, bool is_first_of_node) {
  const auto driver = open_nvml();
  std::optional<std::vector<std::string>> uuids;
  if (driver) uuids = visible_gpus_here(*driver);
  const int64_t seen = uuids ? static_cast<int64_t>(uuids->size()) : 0;
  if (seen == 1) count = 1;
  if (seen != 1 && !is_first_of_node) return;
  if (seen < count) {
    sensors.push_back(make_silent_sensor("gpu", EnergyPart::kGpu));
    return;
  }
  uuids->resize(static_cast<size_t>(count));
  for (auto& sensor : make_gpu_sensors(driver, *uuids)) sensors.push_back(std::move(sensor));
}

}  // namespace

Sensors sensors_of_rank(const RunConfig& config, bool is_gpu, int64_t rank) {
  const int64_t ranks_of_node = config.cluster.gpus / config.cluster.nodes;
  const bool is_first_of_node = rank % ranks_of_node == 0;
  Sensors sensors = host_sensors(config.meter, is_first_of_node);
  if (is_gpu) add_gpu_sensors(sensors, ranks_of_node, is_first_of_node);
  return sensors;
}

double RankEnergy::joules() {
  const EnergyInterval& interval = meter_.read();
  if (interval.devices.empty()) return 0;
  return interval.joules().value_or(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace litespark::cli
