// SPDX-License-Identifier: Apache-2.0
// What the two kernels of the cross-entropy share: one block a row (loss.cu), a cluster of blocks a row
// (loss_cluster.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/step_state.h"
#include "ops/cuda/heuristics/loss.h"

namespace litespark::cuda {

template <class T>
struct CrossEntropyArgs {
  float* losses;
  float* log_sum_exp;  // may be nullptr
  T* logits;
  const int32_t* labels;
  StepState* state;
  int columns;  // V
  float z_coefficient;
  bool write_gradient;
};

/// Needs compute capability 9.0, whole 16-byte vectors and `cluster.blocks` > 0.
template <class T>
void launch_cross_entropy_cluster(const CrossEntropyArgs<T>& args, const LossCluster& cluster, int64_t rows,
                                  cudaStream_t stream);

}  // namespace litespark::cuda
