// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name.
#pragma once

#include "core/dtype.h"
#include "core/error.h"
#include "ops/cuda/device/tma.cuh"

namespace litespark::cuda {

struct MatrixMapRequest {
  const void* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int box_rows = 0;
  int box_row_bytes = 128;
  DType dtype = DType::kBF16;
};

inline CUtensorMap make_matrix_map(const MatrixMapRequest& request) {
  const int element_bytes = static_cast<int>(dtype_bytes(request.dtype));
  if (request.columns * element_bytes % 16 != 0) {
    throw InternalError("tensor map", "rows are not whole 16-byte pieces", request.columns, "16 bytes");
  }
  return {request.data, request.rows, request.columns, request.box_rows, request.box_row_bytes, element_bytes};
}

}  // namespace litespark::cuda
