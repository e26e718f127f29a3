// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/tensor_map.h"

#include <cuda_runtime_api.h>

#include "core/error.h"
#include "ops/cuda/check.h"

namespace litespark::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// Asked of the driver through the runtime, so that nothing links with the driver's library.
Encode encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result),
        "tensor map");
  if (result != cudaDriverEntryPointSuccess || function == nullptr) {
    throw DeviceError("tensor map", "the driver has no tensor maps");
  }
  return reinterpret_cast<Encode>(function);
}

CUtensorMapSwizzle swizzle_of(int row_bytes) {
  switch (row_bytes) {
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    default: return CU_TENSOR_MAP_SWIZZLE_128B;
  }
}

}  // namespace

CUtensorMap make_matrix_map(const MatrixMapRequest& request) {
  static const Encode encode = encoder();
  CUtensorMap map{};
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(request.columns), static_cast<cuuint64_t>(request.rows)};
  const auto element_bytes = static_cast<cuuint32_t>(dtype_bytes(request.dtype));
  const cuuint64_t row_bytes[1] = {static_cast<cuuint64_t>(request.columns) * element_bytes};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(request.box_row_bytes) / element_bytes,
                             static_cast<cuuint32_t>(request.box_rows)};
  const cuuint32_t element_strides[2] = {1, 1};
  const CUresult status =
      encode(&map, element_bytes == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
             const_cast<void*>(request.data), extents, row_bytes, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle_of(request.box_row_bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError("tensor map", "the driver refused the description", static_cast<int>(status), "0");
  }
  return map;
}

}  // namespace litespark::cuda
