// SPDX-License-Identifier: Apache-2.0
// What the two kernels of the cross-entropy share: one block a row (loss.cu), rows that pass through shared memory
// (loss_rows_sm90.cu).
#pragma once

#include <cstdint>

#include "core/step_state.h"
#include "ops/cuda/heuristics/loss.h"

namespace litespark::cuda {

struct DeviceContext;

template <class T>
struct CrossEntropyArgs {
  float* losses;
  float* log_sum_exp;  // may be nullptr
  T* logits;
  const int32_t* labels;
  StepState* state;
  int64_t rows;
  int columns;  // V
  float z_coefficient;
  bool write_gradient;
};

/// `ring` as loss_ring_of_row says, with blocks. Needs compute capability 9.0.
template <class T>
void launch_loss_rows(const CrossEntropyArgs<T>& args, const LossRing& ring, const DeviceContext& context);

}  // namespace litespark::cuda
