// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: what the Hopper attention uses of it.
#pragma once

#include <cstdint>

#include "block.h"
#include "core/bf16.h"

namespace litespark::cuda {

inline uint32_t pack_bf16(float low, float high) {
  return to_bf16(low).bits | static_cast<uint32_t>(to_bf16(high).bits) << 16;
}

template <int kWidth>
void load_floats(const bf16* source, float (&values)[kWidth]) {
  for (int i = 0; i < kWidth; ++i) values[i] = to_float(source[i]);
}

}  // namespace litespark::cuda
