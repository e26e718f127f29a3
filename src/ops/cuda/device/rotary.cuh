// SPDX-License-Identifier: Apache-2.0
// Rotary positions of pairs (i, i + D/2) of a head that a kernel holds in registers, by the angles of op::Rope.
#pragma once

#include "ops/cuda/attention_portable.h"
#include "ops/cuda/device/vector.cuh"

namespace litespark::cuda {

/// Two neighbouring numbers of a table of angles.
__device__ inline float2 load_angles(const RotaryAngles& angles, int64_t at) {
  float values[2];
  if (angles.dtype == DType::kF32) {
    load_floats(static_cast<const float*>(angles.table) + at, values);
  } else if (angles.dtype == DType::kBF16) {
    load_floats(static_cast<const bf16*>(angles.table) + at, values);
  } else {
    load_floats(static_cast<const fp16*>(angles.table) + at, values);
  }
  return make_float2(values[0], values[1]);
}

/// Of pairs i and i + 1, i even, at a token's position.
struct PairAngles {
  float2 cosine;
  float2 sine;

  __device__ static PairAngles load(const RotaryAngles& angles, int64_t position, int head_dim, int pair) {
    const int64_t at = position * head_dim + pair;
    return {.cosine = load_angles(angles, at), .sine = load_angles(angles, at + head_dim / 2)};
  }

  /// Rotates the pairs (low.x, high.x) and (low.y, high.y) forward.
  __device__ void rotate(float2& low, float2& high) const {
    const float2 was = low;
    low = make_float2(low.x * cosine.x - high.x * sine.x, low.y * cosine.y - high.y * sine.y);
    high = make_float2(high.x * cosine.x + was.x * sine.x, high.y * cosine.y + was.y * sine.y);
  }
  /// And back.
  __device__ void rotate_back(float2& low, float2& high) const {
    const PairAngles back{.cosine = cosine, .sine = make_float2(-sine.x, -sine.y)};
    back.rotate(low, high);
  }
};

}  // namespace litespark::cuda
