// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: exponentials of the C library.
#pragma once

#include <cmath>

namespace litespark::cuda {

inline constexpr float kLog2E = 1.44269504088896340736f;

inline float exp2_approximate(float x) {
  return std::exp2(x);
}

template <class T>
float sigmoid(float value) {
  return 1.0f / (1.0f + std::exp(-value));
}

template <class T>
float silu(float value) {
  return value * sigmoid<T>(value);
}

}  // namespace litespark::cuda
