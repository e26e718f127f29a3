// SPDX-License-Identifier: Apache-2.0
// The time of our own runs: each op on the tape by what the hardware reaches at its size, so that recompute, chunks of
// the head and every pass over memory are counted as they will be executed. Collectives run beside the ops until their
// wait, as they do on the device.
#pragma once

#include "plan/hardware.h"
#include "plan/step_time.h"
#include "spec/program.h"

namespace litespark {

/// One step of one rank; `gradients` is what waits for collectives cost. tokens_per_second and model_tflops stay 0.
/// Recomputed ops count with what they do, `recompute` stays 0.
StepSeconds program_seconds(const Program& program, int64_t accumulation, const Hardware& hardware);

}  // namespace litespark
