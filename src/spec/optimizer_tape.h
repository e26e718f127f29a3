// SPDX-License-Identifier: Apache-2.0
// The phases around the parameters rather than the tokens: packing weights, and the optimizer step.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Packed and bf16 copies of every weight, from the masters. Empty when compute reads the masters themselves.
Tape make_pack_tape(const Program& program);

/// Global norm, decision, AdamW over runs of neighbouring parameters of one decay group.
Tape make_optimizer_tape(Program& program);

}  // namespace litespark
