// SPDX-License-Identifier: Apache-2.0
// How fast this machine multiplies matrices, measured: the model's own ones, what MFU is held against where no data
// sheet says, and one of a fixed size, for comparing backends without a model.
#pragma once

#include "model/executor.h"

namespace litespark {

struct MatmulPeak {
  double flops_per_second = 0;
  int num_shapes = 0;  ///< of forward products in one micro-batch
};

/// Runs each distinct forward product of the training tape by itself, on the program's own tensors, round after round
/// until `seconds` have passed; one round at least. The peak is the FLOPs of a whole forward pass over the sum of the
/// shapes' median times: a mean weighted by FLOPs. Overwrites the arena: call it between phases. Throws InternalError
/// for programs without a training tape.
MatmulPeak measure_matmul_peak(Executor& executor, double seconds = 1.0);

/// FLOP/s of the fastest of several products [512, 1024] x [1024, 1024] with packed weights where the backend wants
/// them; takes about `seconds`, one product at least. The best counts, since other work on the machine only slows.
double measure_matmul_rate(Backend& backend, DType compute, double seconds = 0.25);

}  // namespace litespark
