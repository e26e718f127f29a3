// SPDX-License-Identifier: Apache-2.0
// How fast this backend multiplies matrices, measured: what MFU is held against where no data sheet says.
#pragma once

#include "core/dtype.h"
#include "ops/backend.h"

namespace litespark {

/// FLOP/s of the fastest of several products [512, 1024] x [1024, 1024] with packed weights where the backend wants
/// them; takes about `seconds`, one product at least. The best counts, since other work on the machine only slows.
double measure_matmul_rate(Backend& backend, DType compute, double seconds = 0.25);

}  // namespace litespark
