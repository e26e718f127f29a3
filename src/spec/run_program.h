// SPDX-License-Identifier: Apache-2.0
// From a run file's words to the program's options: the one place where train and plan agree on what is built.
#pragma once

#include "spec/program.h"
#include "spec/run_config.h"

namespace litespark {

/// Packed documents in `rows` x `length` tokens, with room for a mean length of 8 tokens: an offset costs four bytes,
/// so this is cheap; a loader closes a micro-batch early when it holds even shorter documents.
BatchShape packed_batch(int64_t rows, int64_t length);

/// Options of the training program that `config` describes for one device, the first rank's; another sets its
/// ProgramOptions::data_rank and tensor_rank. Touches no file.
ProgramOptions training_options(const RunConfig& config);

}  // namespace litespark
