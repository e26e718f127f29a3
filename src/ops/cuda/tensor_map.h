// SPDX-License-Identifier: Apache-2.0
// Descriptions of global tensors for Hopper's tensor memory accelerator.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/dtype.h"

namespace litespark::cuda {

/// A row-major matrix, copied in boxes of `box_row_bytes` of columns x `box_rows` rows with the swizzle of that width
/// (hopper_maps.h).
struct MatrixMapRequest {
  const void* data = nullptr;  ///< multiple of 16 bytes
  int64_t rows = 0;
  int64_t columns = 0;         ///< a row is a multiple of 16 bytes
  int box_rows = 0;            ///< at most 256
  int box_row_bytes = 128;     ///< or 64, or 32
  DType dtype = DType::kBF16;  ///< or of 8-bit floats
};

/// Elements past the matrix arrive as zeros. The map holds the address: it must be made again when the memory moves.
/// Throws DeviceError when the driver has no such function or refuses the request.
CUtensorMap make_matrix_map(const MatrixMapRequest& request);

}  // namespace litespark::cuda
