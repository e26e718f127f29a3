// SPDX-License-Identifier: Apache-2.0
// Exponentials by storage type: the exact library function for f32 tensors (their tests allow two units in the last
// place), the special-function unit for bf16, whose own rounding is a thousand times coarser.
#pragma once

#include <type_traits>

#include "core/bf16.h"

namespace litespark::cuda {

inline constexpr float kLog2E = 1.44269504088896340736f;

/// 2^x in the special function unit: relative error about 2^-22, results below the normal range become 0.
__device__ inline float exp2_approximate(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

template <class T>
__device__ float exponential(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return expf(value);
  } else {
    return exp2_approximate(value * kLog2E);
  }
}

/// 1 / (1 + exp(-value)); 0 and 1 at the ends, NaN for NaN.
template <class T>
__device__ float sigmoid(float value) {
  const float denominator = 1.0f + exponential<T>(-value);
  if constexpr (std::is_same_v<T, float>) {
    return 1.0f / denominator;
  } else {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(denominator));
    return result;
  }
}

/// value * sigmoid(value), with one rounding fewer for f32.
template <class T>
__device__ float silu(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value / (1.0f + expf(-value));
  } else {
    return value * sigmoid<T>(value);
  }
}

}  // namespace litespark::cuda
