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
    DeviceShare& share = devices[device.device];
    share.part = device.part;
    share.joules += *device.reading.joules;
    share.method = std::max(share.method, device.reading.method);
  }
}

void EnergyAccount::restart() {
  joules = metered_seconds = unmetered_seconds = 0;
  method = EnergyMethod::kCounter;
  for (auto& [name, share] : devices) share = {.part = share.part};
}

std::optional<double> EnergyAccount::part_joules(EnergyPart part) const {
  std::optional<double> sum;
  if (!is_known()) return sum;
  for (const auto& [name, share] : devices) {
    if (share.part == part) sum = sum.value_or(0) + share.joules;
  }
  return sum;
}

std::optional<double> EnergyAccount::mean_watts() const {
  if (!is_known()) return std::nullopt;
  return joules / metered_seconds;
}

std::optional<double> PowerWindow::add(const EnergyInterval& interval) {
  stretch_.add(interval);
  if (stretch_.unmetered_seconds > 0) {
    if (stretch_.seconds() >= kSeconds) stretch_.restart();
    return last_ = std::nullopt;
  }
  if (stretch_.seconds() < kSeconds) return last_ ? last_ : stretch_.mean_watts();
  last_ = stretch_.mean_watts();
  stretch_.restart();
  return last_;
}

}  // namespace litespark
