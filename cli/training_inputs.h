// SPDX-License-Identifier: Apache-2.0
// What a training run starts from: batches, held-out batches, weights.
#pragma once

#include <memory>
#include <string>

#include "data/batch_source.h"
#include "model/weights.h"
#include "spec/run_config.h"

namespace litespark::cli {

/// Throws ConfigError for settings of the run file that this version does not carry out.
void refuse_unsupported(const RunConfig& config);

/// `path` is data.path or data.eval_path; synthetic tokens need none.
std::unique_ptr<BatchSource> make_source(const RunConfig& config, const Program& program, const std::string& path);

/// nullptr when the run file asks for no evaluation. Synthetic held-out tokens come from another seed.
std::unique_ptr<BatchSource> make_eval_source(const RunConfig& config, const Program& program);

/// From the seed, or from the model's folder.
void fill_weights(Executor& executor, const RunConfig& config);

}  // namespace litespark::cli
