// SPDX-License-Identifier: Apache-2.0
// What one pipeline stage does in a step and in an evaluation, as tapes: all of a step's micro-batches stand on one, in
// the order of the schedule, so that lifetimes and the memory plan see how many are in flight.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Phase::kTrainStep of a stage: every micro-batch reads the batch of its own that Program::batch_of names.
Tape make_train_step_tape(Program& program, const BackendSizes& sizes);

/// Phase::kEval of a stage: forward of one micro-batch; the loss is the last stage's alone.
Tape make_stage_eval_tape(Program& program, const BackendSizes& sizes);

}  // namespace litespark
