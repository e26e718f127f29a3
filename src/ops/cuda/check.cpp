// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/check.h"

#include <string>

#include "core/error.h"

namespace litespark::cuda {

void check(cudaError_t status, std::string_view what, const std::source_location& where) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    throw ConfigError(what, "the driver could not get memory for itself",
                      std::to_string(free_bytes >> 20) + " of " + std::to_string(total_bytes >> 20) + " MiB free",
                      "enough beside the plan, and page-locked host memory that the system allows",
                      "set memory.budget lower, or end other programs on the device");
  }
  const std::string_view path = where.file_name();
  const std::string_view file = path.substr(path.find_last_of('/') + 1);
  throw DeviceError(what, std::string("CUDA error ") + cudaGetErrorName(status) + " (" + cudaGetErrorString(status) +
                              ") at " + std::string(file) + ":" + std::to_string(where.line()));
}

}  // namespace litespark::cuda
