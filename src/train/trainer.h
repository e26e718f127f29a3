// SPDX-License-Identifier: Apache-2.0
// The training loop: batches in, one optimizer step, one record out. Knows no kernels, no files, no terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/batch_source.h"
#include "model/executor.h"
#include "optim/schedule.h"
#include "train/evaluate.h"

namespace litespark {

struct TrainerOptions {
  Schedule schedule;
  int64_t accumulation = 1;  ///< micro-batches a step
  double clip_norm = 1.0;    ///< 0: no clipping
  int64_t nan_limit = 10;    ///< skipped steps in a row after which the run stops with NumericError
  double spike_factor = 0;   ///< skip a step whose gradient norm exceeds this many times its recent median; 0: never
};

/// What one step reports; the keys of metrics.jsonl.
struct StepRecord {
  int64_t step = 0;    ///< 1-based: the first step is 1
  int64_t tokens = 0;  ///< trained so far
  double loss = 0;     ///< mean over this step's supervised tokens
  double z_loss = 0;
  double grad_norm = 0;  ///< global, before clipping
  double lr = 0;
  int64_t supervised_tokens = 0;
  bool skipped = false;  ///< the update was refused: not finite, a spike, or nothing supervised
  int64_t skipped_total = 0;
  double seconds = 0;            ///< wall time of the step
  double data_wait_seconds = 0;  ///< of it, waiting for the loader
};

/// Gives the trainer micro-batch `index`; blocks until it is ready. The reference stays valid until the next call.
using NextBatch = std::function<const Batch&(uint64_t index)>;

class Trainer {
 public:
  /// `executor` holds initialised, packed weights; its program has the training phases (with accumulation if asked
  /// for).
  Trainer(Executor& executor, TrainerOptions options, NextBatch next_batch);

  /// Runs one step. Throws NumericError past nan_limit, DataError when a token id lies outside the vocabulary.
  StepRecord step();
  /// Mean loss over `batches` micro-batches of another source; changes no training state. nullopt when `should_stop`
  /// said so between two batches.
  std::optional<EvalResult> evaluate(
      const BatchSource& source, int64_t batches, const std::function<bool()>& should_stop = [] { return false; });

  int64_t steps_done() const { return steps_done_; }
  int64_t tokens_done() const { return tokens_done_; }
  const TrainerOptions& options() const { return options_; }

  /// Continues from a checkpoint: the state that lives outside the device tensors.
  struct Progress {
    int64_t steps_done = 0;
    int64_t tokens_done = 0;
    int64_t skipped_in_a_row = 0;
    int64_t optimizer_steps = 0;
    int64_t skipped_steps = 0;
    std::vector<double> recent_norms;  ///< for the spike guard, oldest first
  };
  Progress progress() const;
  void restore(const Progress& progress);

 private:
  double run_micro_batches();
  float spike_limit() const;
  void remember_norm(const StepRecord& record);
  void enforce_policy(const StepState& state, const StepRecord& record);

  Executor& executor_;
  TrainerOptions options_;
  NextBatch next_batch_;
  int64_t steps_done_ = 0;
  int64_t tokens_done_ = 0;
  int64_t skipped_in_a_row_ = 0;
  std::vector<double> recent_norms_;
};

}  // namespace litespark
