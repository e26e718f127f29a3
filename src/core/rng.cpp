// SPDX-License-Identifier: Apache-2.0
#include "core/rng.h"

#include <cmath>
#include <numbers>

namespace litespark {

double RandomStream::normal(uint64_t index) const {
  const auto words = block(index);
  const uint64_t low = (uint64_t{words[1]} << 32) | words[0];
  const uint64_t high = (uint64_t{words[3]} << 32) | words[2];
  const double radius_uniform = (static_cast<double>(low >> 11) + 1.0) * 0x1.0p-53;
  const double angle_uniform = static_cast<double>(high >> 11) * 0x1.0p-53;
  return std::sqrt(-2.0 * std::log(radius_uniform)) * std::cos(2.0 * std::numbers::pi * angle_uniform);
}

}  // namespace litespark
