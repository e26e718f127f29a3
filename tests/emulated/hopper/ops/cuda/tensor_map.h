// SPDX-License-Identifier: Apache-2.0
// Stands in for the header of the same name.
#pragma once

#include "ops/cuda/device/tma.cuh"

namespace litespark::cuda {

struct MatrixMapRequest {
  const void* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int box_rows = 0;
};

inline CUtensorMap make_matrix_map(const MatrixMapRequest& request) {
  return {static_cast<const bf16*>(request.data), request.rows, request.columns, request.box_rows};
}

}  // namespace litespark::cuda
