// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: addresses of the emulated shared memory.
#pragma once

#include <cstdint>

#include "block.h"
#include "core/bf16.h"
#include "ops/cuda/device/math.cuh"

namespace litespark::cuda {

inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const unsigned char*>(pointer) - emulated::shared_memory());
}

}  // namespace litespark::cuda
