// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/check.h"

#include <string>

#include "core/error.h"

namespace litespark::cuda {

void check(cudaError_t status, std::string_view what, const std::source_location& where) {
  if (status == cudaSuccess) return;
  const std::string_view path = where.file_name();
  const std::string_view file = path.substr(path.find_last_of('/') + 1);
  throw DeviceError(what, std::string("CUDA error ") + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) +
                              ") at " + std::string(file) + ":" + std::to_string(where.line()));
}

}  // namespace litespark::cuda
