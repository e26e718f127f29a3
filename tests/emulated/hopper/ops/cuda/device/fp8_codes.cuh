// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name: the project's own conversions.
#pragma once

#include <cstdint>

#include "core/fp8.h"

namespace litespark::cuda {

using e4m3 = uint8_t;

template <DType kFormat>
uint32_t pack_fp8(float first, float second) {
  return to_fp8(kFormat, first) | static_cast<uint32_t>(to_fp8(kFormat, second)) << 8;
}

}  // namespace litespark::cuda
