// SPDX-License-Identifier: Apache-2.0
// From a run file's words to what the trainer, the loop and the checkpoints take.
#pragma once

#include <string>

#include "spec/run_config.h"
#include "train/checkpoint.h"
#include "train/run_loop.h"
#include "train/trainer.h"

namespace litespark {

TrainerOptions trainer_options(const RunConfig& config);

/// `eval_batches` of 0 becomes one pass over the held-out data.
RunPlan run_plan(const RunConfig& config, const BatchSource* eval_source);

/// What a resumed run must share with the one that it continues: any of these changes other weights come out.
/// `data` is the source's fingerprint. Reads the tokenizer's file when the run names one; throws IoError.
RunIdentity run_identity(const RunConfig& config, const ModelConfig& model, const std::string& data);

}  // namespace litespark
