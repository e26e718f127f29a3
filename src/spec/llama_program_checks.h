// SPDX-License-Identifier: Apache-2.0
// What no program can be made of: options out of range, and layouts of ranks that the model, the batch, another option
// or the device does not allow.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Throws ConfigError naming the setting, InternalError for what no setting says.
void require_possible(const ModelConfig& config, const ProgramOptions& options, const BackendSizes& sizes);

/// Throws ConfigError naming cluster.cp for a micro-batch whose rows so many ranks cannot share.
void require_context_rows(int64_t num_tokens, int64_t context_ranks, int64_t tensor_ranks);

}  // namespace litespark
