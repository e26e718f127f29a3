// SPDX-License-Identifier: Apache-2.0
// From a run file's words to the program's options: the one place where train and plan agree on what is built.
#pragma once

#include "spec/program.h"
#include "spec/run_config.h"

namespace litespark {

/// Options of the training program that `config` describes for one device, the first rank's; another sets its
/// ProgramOptions::data_rank and tensor_rank. Touches no file.
ProgramOptions training_options(const RunConfig& config);

}  // namespace litespark
