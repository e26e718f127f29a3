// SPDX-License-Identifier: Apache-2.0
// A sensor that reads a list, for tests of what stands on sensors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "meter/energy.h"

namespace litespark {

class FakeSensor final : public EnergySensor {
 public:
  /// The first reading only starts the count, as with every sensor.
  FakeSensor(std::string device, EnergyPart part, std::vector<EnergyReading> readings)
      : device_(std::move(device)), part_(part), readings_(std::move(readings)) {}

  std::string device() const override { return device_; }
  EnergyPart part() const override { return part_; }
  EnergyReading read(double) override { return next_ < readings_.size() ? readings_[next_++] : EnergyReading{}; }

 private:
  std::string device_;
  EnergyPart part_;
  std::vector<EnergyReading> readings_;
  size_t next_ = 0;
};

}  // namespace litespark
