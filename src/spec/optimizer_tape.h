// SPDX-License-Identifier: Apache-2.0
// The phases around the parameters rather than the tokens: packing weights, and the optimizer step.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Packed copies of every multiplied weight where they stay, and with ProgramOptions::fp8 the 8-bit copies of the
/// blocks' matrices. Else empty where matmuls read weights as they are: bf16 ones are written with their masters, by
/// AdamW and by what loads parameters (model/weights.h).
Tape make_pack_tape(Program& program);

/// Largest magnitudes of the weights of those copies, for the first time: optimizer_measures_weights.
Tape make_measure_tape(const Program& program);

/// A checksum of every parameter's gradient into Program::checksums, which it declares.
Tape make_checksum_tape(Program& program);

/// Global norm, decision, AdamW a parameter, in flat order.
Tape make_optimizer_tape(Program& program);

}  // namespace litespark
