// SPDX-License-Identifier: Apache-2.0
// What no program can be made of: options out of range, and layouts of ranks that the model, the batch, another option
// or the device does not allow.
#pragma once

#include "spec/program.h"

namespace litespark {

/// Bounds on what is written out op by op: chunks of logits of a micro-batch (4096 take a tenth of a second to plan),
/// and layers times the micro-batches of a step, which pipeline stages have on one tape (2^16 take most of a minute).
inline constexpr int64_t kMostHeadChunks = 4096;
inline constexpr int64_t kMostLayerPasses = int64_t{1} << 16;

/// Whether micro-batches of so many tokens, and so many of them, stay within these bounds.
bool has_bounded_length(const ModelConfig& config, const ProgramOptions& options);

/// Rows of logits at a time that a backend prefers, or more, so that there are kMostHeadChunks at most.
int64_t default_head_chunk_rows(int64_t preferred_rows, int64_t num_tokens);

/// Throws ConfigError naming the setting, InternalError for what no setting says.
void require_possible(const ModelConfig& config, const ProgramOptions& options, const BackendSizes& sizes);

/// Throws ConfigError naming cluster.cp for a micro-batch whose rows so many ranks cannot share.
void require_context_rows(int64_t num_tokens, int64_t context_ranks, int64_t tensor_ranks);

}  // namespace litespark
