// SPDX-License-Identifier: Apache-2.0
// The one place where CUDA status codes become exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string_view>

namespace litespark::cuda {

/// Throws DeviceError "[what] CUDA error NAME (text) at file:line" unless `status` is success. `what` names the op or
/// the call. Memory that is not there is no fault of the device: ConfigError with what is free.
void check(cudaError_t status, std::string_view what,
           const std::source_location& where = std::source_location::current());

/// To be called after each kernel launch: reports refused launches and earlier sticky errors under the op's name.
inline void check_launch(std::string_view op, const std::source_location& where = std::source_location::current()) {
  check(cudaGetLastError(), op, where);
}

}  // namespace litespark::cuda
