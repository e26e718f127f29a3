// SPDX-License-Identifier: Apache-2.0
// f32 values from the two halves in which precision.master = "bf16-remainder" keeps them.
#pragma once

#include <cstdint>

#include "core/bf16_rounding.h"

namespace litespark::cpu {

inline void join_floats(const bf16* weight, const uint16_t* remainder, float* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = join_float(weight[i], remainder[i]);
}

}  // namespace litespark::cpu
