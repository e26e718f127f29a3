// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: addresses of the emulated shared memory, exponentials.
#pragma once

#include <cmath>
#include <cstdint>

#include "block.h"
#include "core/bf16.h"

namespace litespark::cuda {

inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const unsigned char*>(pointer) - emulated::shared_memory());
}

inline constexpr float kLog2E = 1.44269504088896340736f;

inline float exp2_approximate(float x) {
  return std::exp2(x);
}

}  // namespace litespark::cuda
