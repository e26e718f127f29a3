// SPDX-License-Identifier: Apache-2.0
// From the current step to the last: steps, evaluations, saves, and a clean stop when somebody asks for one. Short
// enough to read on one screen; what to print or record is the hooks' business.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "train/checkpoint_saver.h"
#include "train/trainer.h"

namespace litespark {

struct RunPlan {
  int64_t steps = 0;       ///< of the whole run
  int64_t eval_every = 0;  ///< 0: never
  int64_t eval_batches = 0;
  int64_t save_every = 0;    ///< 0: only at the end
  int64_t sample_every = 0;  ///< 0: never
  bool saves_at_end = true;
};

struct RunHooks {
  /// Just before and just after Trainer::step, which a stop request may cut short.
  std::function<void()> before_step = [] {};
  std::function<void()> after_step = [] {};
  /// In order, every step once, at the latest while the step after it runs and before anything that looks at the model.
  std::function<void(const StepRecord&)> on_step = [](const StepRecord&) {};
  std::function<void(int64_t step, const EvalResult&)> on_eval = [](int64_t, const EvalResult&) {};
  /// After a save, and at the end when it is durable: the seconds that the run stood still for it.
  std::function<void(int64_t step, double seconds)> on_save = [](int64_t, double) {};
  /// Takes a sample of the weights after `step`, which are whole on every rank; must leave the training state as it is.
  std::function<void(int64_t step)> sample = [](int64_t) {};
  /// Asked between micro-batches, whose step is dropped then, after each step is issued, between evaluation batches and
  /// after samples. Several ranks stop together, up to two steps later.
  std::function<bool()> should_stop = [] { return false; };
  /// Totals for checkpoints, current when asked.
  std::function<RunTotals()> totals = [] { return RunTotals{}; };
};

enum class RunEnd : uint8_t { kFinished, kStopped };

/// `saver` and `eval_source` may be null, on all ranks alike. On a stop request the state is saved before this returns.
/// While the newest step's loss or norm is not finite nothing else is saved, so that retention keeps what came before;
/// a run that ends so throws NumericError.
RunEnd run_training(Trainer& trainer, CheckpointSaver* saver, const BatchSource* eval_source, const RunPlan& plan,
                    const RunHooks& hooks);

}  // namespace litespark
