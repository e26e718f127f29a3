// SPDX-License-Identifier: Apache-2.0
// Floats rounded to codes of 8-bit floats, several to a register.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "core/dtype.h"

namespace litespark::cuda {

/// A code of e4m3.
using e4m3 = uint8_t;

/// The nearest codes, ties to even; `first` in the low byte.
template <DType kFormat>
__device__ uint32_t pack_fp8(float first, float second) {
  constexpr auto kInterpretation = kFormat == DType::kE5M2 ? __NV_E5M2 : __NV_E4M3;
  return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, kInterpretation);
}

}  // namespace litespark::cuda
