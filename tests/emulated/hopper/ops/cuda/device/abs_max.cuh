// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: emulated threads take turns, so that a plain maximum will do.
#pragma once

#include <cmath>

#include "ops/cuda/device/vector.cuh"

namespace litespark::cuda {

inline float larger_magnitude(float largest, float value) {
  return std::abs(value) <= largest ? largest : std::abs(value);
}
template <int kWidth>
float larger_magnitude(float largest, const float (&values)[kWidth]) {
  for (const float value : values) largest = larger_magnitude(largest, value);
  return largest;
}

inline void raise_abs_max(float* place, float largest) {
  *place = larger_magnitude(*place, largest);
}
template <class T>
void raise_abs_max_of(float* place, float largest) {
  raise_abs_max(place, as_float(from_float<T>(largest)));
}

}  // namespace litespark::cuda
