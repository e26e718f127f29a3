// SPDX-License-Identifier: Apache-2.0
// SwiGLU of one element, both ways: the same expressions, and so the same bits, wherever it is computed.
#pragma once

#include "ops/cuda/device/math.cuh"

namespace litespark::cuda {

/// h = silu(gate) up.
template <class T>
__device__ float swiglu(float gate, float up) {
  return silu<T>(gate) * up;
}

struct SwiGluGradient {
  float gate, up;
};

template <class T>
__device__ SwiGluGradient swiglu_gradient(float gate, float up, float dh) {
  const float s = sigmoid<T>(gate);
  return {.gate = dh * up * s * (1.0f + gate * (1.0f - s)), .up = dh * gate * s};
}

}  // namespace litespark::cuda
