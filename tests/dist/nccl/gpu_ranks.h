// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process, one a GPU: the conformance cases over NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "dist/communicator_conformance.h"
#include "dist/nccl/nccl_communicator.h"

namespace litespark::test {

int num_gpus();

/// What one rank of a test has.
struct GpuRank {
  Communicator& communicator;
  RankMemory& memory;
  cudaStream_t stream;  ///< of the ops
};

/// Runs `body` on ranks 0 .. size - 1, rank r on GPU r, and throws the first exception again.
void run_gpu_ranks(int size, const NcclOptions& options, const std::function<void(const GpuRank& rank)>& body);

}  // namespace litespark::test
