// SPDX-License-Identifier: Apache-2.0
// What every CUDA file of a backend shares: which device, its streams, the properties that launch shapes depend on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "ops/cuda/cuda_backend.h"

namespace litespark::cuda {

struct DeviceContext {
  int ordinal = 0;
  std::string device_name;     ///< "NVIDIA H200"
  int compute_capability = 0;  ///< 90 for Hopper
  int num_multiprocessors = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes_per_block = 0;  ///< with opt-in
  bool deterministic = true;
  KernelChoices kernels;
  cudaStream_t stream = nullptr;       ///< every op runs here, in order
  cudaStream_t copy_stream = nullptr;  ///< for transfers that overlap with ops
};

}  // namespace litespark::cuda
