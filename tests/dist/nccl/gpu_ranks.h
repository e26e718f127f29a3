// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process, one a GPU: the conformance cases over NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <barrier>
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
  std::barrier<>& meeting;

  /// Returns when all ranks that still run have come, without a word to a device. Ranks of one process see each other's
  /// memory, and what allocates or frees (a graph's making too) may wait for kernels of all devices: so nobody may
  /// launch a call that waits for a rank before that rank is through with such things.
  void meet() const { meeting.arrive_and_wait(); }
};

/// Runs `body` on ranks 0 .. size - 1, rank r on GPU r, and throws the first exception again.
void run_gpu_ranks(int size, const NcclOptions& options, const std::function<void(const GpuRank& rank)>& body);

}  // namespace litespark::test
