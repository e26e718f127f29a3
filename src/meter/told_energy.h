// SPDX-License-Identifier: Apache-2.0
// Energy that somebody else measured and told: that of other ranks' devices, which travels with a step's message.
#pragma once

#include <string>
#include <utility>

#include "meter/energy.h"

namespace litespark {

class ToldEnergy final : public EnergySensor {
 public:
  /// `method`: of those who measure.
  ToldEnergy(std::string device, EnergyPart part, EnergyMethod method)
      : device_(std::move(device)), part_(part), method_(method) {}

  /// Belongs to the interval that the next read ends. NaN: unknown.
  void add(double joules) { joules_ += joules; }

  std::string device() const override { return device_; }
  EnergyPart part() const override { return part_; }
  EnergyReading read(double now_seconds) override;

 private:
  std::string device_;
  EnergyPart part_;
  EnergyMethod method_;
  double joules_ = 0;
};

}  // namespace litespark
