// SPDX-License-Identifier: Apache-2.0
#include "meter/energy.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "core/error.h"

namespace litespark {

std::string_view method_name(EnergyMethod method) {
  switch (method) {
    case EnergyMethod::kCounter: return "counter";
    case EnergyMethod::kIntegrated: return "integrated";
    case EnergyMethod::kEstimated: return "estimated";
    case EnergyMethod::kUnavailable: return "unavailable";
  }
  throw InternalError("meter", "unknown energy method");
}

std::optional<uint64_t> CounterTrack::advance(const std::optional<uint64_t>& value) {
  const std::optional<uint64_t> before = std::exchange(last_, value);
  if (!before || !value) return std::nullopt;
  if (*value >= *before) return *value - *before;
  if (range_ == 0 || *before >= range_) return std::nullopt;
  const uint64_t wrapped = range_ - *before + *value;
  return wrapped < range_ / 2 ? std::optional(wrapped) : std::nullopt;
}

std::optional<double> PowerIntegral::advance(double now_seconds, const std::optional<double>& watts) {
  const std::optional<double> before = std::exchange(last_watts_, watts);
  const double seconds = now_seconds - std::exchange(last_seconds_, now_seconds);
  if (!before || !watts || seconds < 0) return std::nullopt;
  return 0.5 * (*before + *watts) * seconds;
}

std::optional<double> EnergyInterval::joules() const {
  if (devices.empty()) return std::nullopt;
  double sum = 0;
  for (const DeviceEnergy& device : devices) {
    if (!device.reading.joules) return std::nullopt;
    sum += *device.reading.joules;
  }
  return sum;
}

EnergyMethod EnergyInterval::method() const {
  if (devices.empty()) return EnergyMethod::kUnavailable;
  EnergyMethod weakest = EnergyMethod::kCounter;
  for (const DeviceEnergy& device : devices) weakest = std::max(weakest, device.reading.method);
  return weakest;
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

EnergyMeter::EnergyMeter(std::vector<std::unique_ptr<EnergySensor>> sensors, std::function<double()> clock)
    : sensors_(std::move(sensors)), clock_(std::move(clock)) {
  std::set<std::string> names;
  for (const auto& sensor : sensors_) {
    if (!names.insert(sensor->device()).second) {
      throw InternalError("meter", "two sensors for one device", sensor->device(), "each device once");
    }
    interval_.devices.push_back({.device = sensor->device(), .part = sensor->part(), .reading = {}});
  }
  (void)read();
}

std::vector<std::string> EnergyMeter::devices() const {
  std::vector<std::string> names;
  for (const auto& sensor : sensors_) names.push_back(sensor->device());
  return names;
}

const EnergyInterval& EnergyMeter::read() {
  const double now = clock_();
  interval_.seconds = now - std::exchange(last_seconds_, now);
  for (size_t i = 0; i < sensors_.size(); ++i) {
    EnergyReading& reading = interval_.devices[i].reading;
    reading = sensors_[i]->read(now);
    if (!reading.joules) reading.method = EnergyMethod::kUnavailable;
  }
  return interval_;
}

}  // namespace litespark
