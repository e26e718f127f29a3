// SPDX-License-Identifier: Apache-2.0
// Declares what holds the parameters over the run: master weights, compute copies, gradients, moments, in the formats
// that the program's options ask for.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Fills Program::flat and Program::param_tensors but for packed copies. `packs`: matmuls read packed copies, so that
/// f32 masters need no bf16 ones.
void declare_flat_tensors(Program& program, bool packs);

}  // namespace litespark
