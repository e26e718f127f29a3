// SPDX-License-Identifier: Apache-2.0
#include "meter/energy_account.h"

#include <algorithm>

namespace litespark {

void EnergyAccount::add(const EnergyInterval& interval) {
  const std::optional<double> sum = interval.joules();
  if (!sum) {
    unmetered_seconds += interval.seconds;
    return;
  }
  joules += *sum;
  metered_seconds += interval.seconds;
  method = std::max(method, interval.method());
  for (const DeviceEnergy& device : interval.devices) {
    device_joules[device.device] += *device.reading.joules;
    part_joules[device.part] += *device.reading.joules;
  }
}

std::optional<double> EnergyAccount::mean_watts() const {
  if (!is_known()) return std::nullopt;
  return joules / metered_seconds;
}

}  // namespace litespark
