// SPDX-License-Identifier: Apache-2.0
#include "meter/told_energy.h"

#include <cmath>

namespace litespark {

EnergyReading ToldEnergy::read(double) {
  const double joules = std::exchange(joules_, 0.0);
  if (std::isnan(joules)) return {};
  return {.joules = joules, .method = method_};
}

}  // namespace litespark
