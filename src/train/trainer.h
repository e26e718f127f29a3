// SPDX-License-Identifier: Apache-2.0
// The training loop: batches in, one optimizer step, one record out. Knows no kernels, no files, no terminal.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch_source.h"
#include "model/executor.h"
#include "optim/schedule.h"
#include "train/evaluate.h"
#include "train/rank_clock.h"

namespace litespark {

struct TrainerOptions {
  Schedule schedule;
  int64_t accumulation = 1;  ///< micro-batches a step
  double clip_norm = 1.0;    ///< 0: no clipping
  int64_t nan_limit = 10;    ///< skipped steps in a row after which the run stops with NumericError
  double spike_factor = 0;   ///< skip a step whose gradient norm exceeds this many times its recent median; 0: never
  /// Of several ranks, asked once a step: RankCounts::joules.
  std::function<double()> joules_of_rank = [] { return 0.0; };
  int64_t verify_every = 0;  ///< steps between corruption checks, which the program must have checksums for; 0: never
  /// Of several ranks, from the first step on: steps between comparisons of what all must have; 0: never. The program
  /// must have the phase; a multiple of its sync_small_every.
  int64_t verify_ranks_every = 0;
};

/// What 8-bit matmuls lost in one step, over all of its micro-batches.
struct Fp8Losses {
  int64_t overflows = 0;         ///< tensors that held Inf or NaN
  double inputs_flushed = 0;     ///< share of the inputs' elements that became 0 for being small
  double gradients_flushed = 0;  ///< the same of gradients: grows before a format's range is too small
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
  double joules_of_others = 0;  ///< of several ranks: RankCounts::joules of all; NaN: unknown
  bool stop_requested = false;  ///< of several ranks one was asked to stop before this step's update
  bool skipped = false;         ///< the update was refused: not finite, a spike, or nothing supervised
  int64_t skipped_total = 0;
  /// From the end of the step before it on the device to its own end; from its start when nothing was under way.
  double seconds = 0;
  std::optional<Fp8Losses> fp8;  ///< with 8-bit matmuls
  /// Where ranks had copies of norms and biases that came together in front of this step: the largest distance of a
  /// rank's from the mean, relative to it.
  std::optional<double> copy_drift;
  /// Of several ranks: what each spent on its own work in the step two before (train/rank_clock.h); empty where
  /// unknown.
  std::vector<double> rank_seconds;
  double data_wait_seconds = 0;  ///< the host waited for the loader; on a GPU ops of the step before may have run on
};

/// Gives the trainer micro-batch `index`; blocks until it is ready. The reference stays valid until the next call.
using NextBatch = std::function<const Batch&(uint64_t index)>;

class Trainer {
 public:
  /// `executor` holds initialised, packed weights; its program has the training phases (with accumulation if asked
  /// for).
  Trainer(Executor& executor, TrainerOptions options, NextBatch next_batch);

  /// Issues one step without waiting for it and returns the record of the step before, when that was under way; its own
  /// record at once where the device is already done. Throws NumericError past nan_limit DataError when a token id
  /// lies outside the vocabulary, DeviceError when the device failed or a corruption check did: both of the step whose
  /// record is due, so the step after it may be under way by then.
  ///
  /// When `should_stop`, asked between two micro-batches, says so, the step is dropped: its optimizer never runs, the
  /// state stays that of the step before, steps_done() does not grow. Several ranks cannot agree so early: not asked.
  std::optional<StepRecord> step(const std::function<bool()>& should_stop = [] { return false; });
  /// Waits for the step under way; its record, if there was one. Evaluation, progress and restore want this first.
  std::optional<StepRecord> finish();
  /// step and finish with nothing else under way, for callers that look at every step.
  StepRecord step_and_finish();
  /// Mean loss over `batches` micro-batches of another source; changes no training state. nullopt when `should_stop`
  /// said so between two batches.
  std::optional<EvalResult> evaluate(
      const BatchSource& source, int64_t batches, const std::function<bool()>& should_stop = [] { return false; });

  /// The next step runs up to its optimizer and waits there until `released`; throws what that throws. Somebody reads
  /// the state meanwhile.
  void hold_update(std::shared_future<void> released) { held_ = std::move(released); }

  /// Of several ranks: the next step's message says that this one was asked to stop (StepRecord::stop_requested).
  void request_stop() { wants_stop_ = true; }
  bool has_peers() const { return executor_.communicator() != nullptr; }
  /// Before somebody other than the trainer looks at the weights. All ranks call it.
  void make_weights_whole();
  /// Where ranks update copies of norms and biases: makes them equal if they are not. All ranks call it.
  void synchronise_copies();
  /// Steps between which the copies are apart; 1 where there are none.
  int64_t sync_small_every() const { return executor_.program().options.sync_small_every; }

  /// Steps issued; that of the last may still be under way.
  int64_t steps_done() const { return steps_done_; }
  /// Of several ranks: those of all, as far as records are collected.
  int64_t tokens_done() const { return tokens_done_; }
  const TrainerOptions& options() const { return options_; }

  /// Continues from a checkpoint: the state that lives outside the device tensors.
  struct Progress {
    int64_t steps_done = 0;
    int64_t tokens_done = 0;
    int64_t skipped_in_a_row = 0;
    int64_t optimizer_steps = 0;
    int64_t skipped_steps = 0;
    /// For the spike guard, oldest first; the last is that of the newest step, NaN when it was skipped.
    std::vector<double> recent_norms;
  };
  Progress progress() const;
  void restore(const Progress& progress);

 private:
  /// A step on its way through the device: what its record needs from the host's side.
  struct Issued {
    int64_t step = 0;  ///< 1-based
    int64_t tokens = 0;
    double lr = 0;
    double data_wait_seconds = 0;
    bool follows_synchronisation = false;
  };

  /// nullopt: dropped.
  std::optional<Issued> issue(const std::function<bool()>& should_stop);
  StepRecord collect(const Issued& issued);
  AsyncRead& outcome_of(int64_t step) { return *outcomes_[static_cast<size_t>(step) % outcomes_.size()]; }
  AsyncRead& message_of(int64_t step) { return *messages_[static_cast<size_t>(step) % messages_.size()]; }
  std::vector<double> seconds_of_ranks(int64_t step);
  void require_nothing_under_way(const char* what) const;
  struct MicroBatches {
    double data_wait_seconds = 0;
    int64_t tokens = 0;
  };
  std::optional<MicroBatches> run_micro_batches(const StepState& inputs, const std::function<bool()>& should_stop);
  Phase phase_of(int64_t micro) const;
  /// Whether all of a step's micro-batches stand on one tape, of this pipeline stage.
  bool is_staged() const { return executor_.program().options.stages > 1; }
  bool compares_replicas() const;
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
  bool wants_stop_ = false;
  bool copies_are_apart_ = false;
  bool were_copies_joined_ = false;  ///< since the step before
  std::optional<Issued> under_way_;
  std::shared_future<void> held_;
  /// One for the step being issued, one for the step before it, one for the end of that before both: times are
  /// differences.
  std::array<std::unique_ptr<AsyncRead>, 3> outcomes_;
  // Of several ranks.
  std::optional<RankClock> clock_;
  std::array<std::unique_ptr<AsyncRead>, 2> messages_;  ///< what all ranks said: of the step under way, of that before
};

}  // namespace litespark
